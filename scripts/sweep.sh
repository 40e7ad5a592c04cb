#!/usr/bin/env bash
# Searches hyper-parameters on the validation set; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

become sweep "$@"
