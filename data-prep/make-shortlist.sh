#!/usr/bin/env bash
# Learns from binarised data which target words may translate a sentence; see --help.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become shortlist "$@"
