#!/usr/bin/env bash
# Turns the Stanford Sentiment Treebank with five classes (1.2 MB) into binarised fairseq data; see --help.
# It keeps the tokens of the treebank's authors, and binarises them with their labels.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare sst5 "$@"
