#!/usr/bin/env bash
# Translates raw text with a trained model; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

become translate "$@"
