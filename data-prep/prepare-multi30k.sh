#!/usr/bin/env bash
# Multi30k English-German or English-French, from its files (1.3 MB) to binarised fairseq data; see --help.
# The text is unpacked, tokenized as by Moses, cleaned, cut into subwords by BPE and binarised.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare multi30k "$@"
