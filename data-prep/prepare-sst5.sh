#!/usr/bin/env bash
# The Stanford Sentiment Treebank with five classes, from its files (1.2 MB) to binarised fairseq data; see --help.
# The words that its authors split are taken as they are, and binarised with their labels.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare sst5 "$@"
