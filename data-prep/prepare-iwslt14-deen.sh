#!/usr/bin/env bash
# Turns the archive of IWSLT'14 German-English (20 MB) into binarised fairseq data; see --help.
# It extracts the text, tokenizes and lower-cases it by the rules of Moses, cleans it, splits training and validation
# sets, applies BPE and binarises it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare iwslt14-deen "$@"
