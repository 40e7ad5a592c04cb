#!/usr/bin/env bash
# Turns a task of GLUE, or your own tables of labelled sentences, into binarised fairseq data; see --help.
# It downloads two or three tables (0.1 to 4 MB), tokenizes the sentences, applies subwords and binarises them.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare glue "$@"
