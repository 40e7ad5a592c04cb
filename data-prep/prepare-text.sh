#!/usr/bin/env bash
# Turns plain text of your own into data for --task span_corruption or masked_lm; see --help.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare text "$@"
