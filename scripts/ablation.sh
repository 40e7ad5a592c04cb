#!/usr/bin/env bash
# Trains and evaluates the eight models of the papers' ablation; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

find_python
PYTHONPATH=$repository${PYTHONPATH:+:$PYTHONPATH} exec "$python" -P -m ea_fairseq ablation "$@"
