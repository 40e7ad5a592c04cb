#!/usr/bin/env bash
# Turns scikit-learn's handwritten digits into the folder that image_prediction reads; see --help.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare digits "$@"
