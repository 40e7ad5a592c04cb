#!/usr/bin/env bash
# Turns Multi30k English-German or English-French (1.3 MB) into binarised fairseq data; see --help.
# It unpacks the text, tokenizes it by the rules of Moses, cleans it, applies BPE and binarises it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare multi30k "$@"
