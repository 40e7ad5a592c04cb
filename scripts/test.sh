#!/usr/bin/env bash
# Runs the tests in the project's own environment; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

usage() {
  cat <<'USAGE'
usage: bash scripts/test.sh [pytest arguments]

Makes the environment .venv if needed and runs the tests, as many files at once as there are cores. Those marked slow
run with -m slow.

example:
  bash scripts/test.sh tests/attention/test_laws.py -k causal
USAGE
}

[[ ${1:-} != --help && ${1:-} != -h ]] || { usage && exit; }
enter_environment
cd "$repository"
export OMP_NUM_THREADS=1
unset PYTHONDONTWRITEBYTECODE # hundreds of processes would each compile the package anew
exec python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder "$@"
