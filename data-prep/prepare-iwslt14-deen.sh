#!/usr/bin/env bash
# IWSLT'14 German-English, from its archive (20 MB) to binarised fairseq data; see --help.
# The text is extracted, tokenized as by Moses in lower case, cleaned, split into training and validation, cut into
# subwords by BPE and binarised.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare iwslt14-deen "$@"
