#!/usr/bin/env bash
# Turns the archives of WMT'14 English-French into binarised fairseq data; see --help.
# It downloads europarl v7, commoncrawl, UN, news-commentary v9 and giga (6.6 GB) and the validation and test sets,
# extracts the text, tokenizes it by the rules of Moses, applies BPE, cleans it and binarises it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare wmt14-enfr "$@"
