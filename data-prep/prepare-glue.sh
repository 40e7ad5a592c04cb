#!/usr/bin/env bash
# A task of GLUE, or one's own, from tables of labelled sentences to binarised fairseq data; see --help.
# Two or three tables are downloaded, 0.1 to 4 MB; their sentences are tokenized, cut into subwords and binarised with
# their labels.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare glue "$@"
