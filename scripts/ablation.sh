#!/usr/bin/env bash
# Trains and evaluates the eight models of the papers' ablation; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

become ablation "$@"
