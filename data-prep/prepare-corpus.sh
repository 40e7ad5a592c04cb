#!/usr/bin/env bash
# Turns a folder of train|valid|test.{src,tgt} text into binarised fairseq data; see --help.
# The text is checked and linked, tokenized as by Moses, cleaned, cut into subwords and binarised.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare corpus "$@"
