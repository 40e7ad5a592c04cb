#!/usr/bin/env bash
# WMT'14 English-German, from its archives to binarised fairseq data; see --help.
# Downloaded are europarl v7, commoncrawl, news-commentary v9 (1.7 GB) and the sets for validation and testing; the text is
# extracted, tokenized as by Moses, cut into subwords by BPE, cleaned and binarised.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare wmt14-ende "$@"
