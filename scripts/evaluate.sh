#!/usr/bin/env bash
# Translates or predicts a test set with a trained model and scores the output; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

find_programs
become evaluate "$@"
