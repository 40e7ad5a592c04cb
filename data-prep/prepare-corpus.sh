#!/usr/bin/env bash
# Turns a folder of train|valid|test.{src,tgt} text into binarised fairseq data; see --help.
# It checks and links the text, tokenizes it by the rules of Moses, cleans it, applies subwords and binarises it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare corpus "$@"
