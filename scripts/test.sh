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

Creates the environment .venv if needed and runs the tests, one file per core at a time. Tests marked slow only run with
-m slow. If 8 GB of memory are free, tests write into memory, and their files are removed at the end. If TMPDIR is set,
they write there, and the files of the last three runs are kept.

example:
  bash scripts/test.sh tests/attention/test_laws.py -k causal
USAGE
}

# use_memory: lets the tests write into memory if there is enough of it and programs may run there. They make and
# remove ten thousand files and folders, and a disk may take milliseconds to remove one.
use_memory() {
  local gigabytes
  [[ ! ${TMPDIR-} ]] || return 0
  for gigabytes in "$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -n 1)" \
    "$(awk '/^MemAvailable/ { print int($2 / 2 ^ 20) }' /proc/meminfo 2>/dev/null)"; do
    ((gigabytes >= 8)) || return 0
  done
  memory=$(mktemp -d /dev/shm/ea-fairseq-tests.XXXXXX 2>/dev/null) || return 0
  trap 'rm -rf "$memory"' EXIT
  printf '#!/bin/sh\n' >"$memory/program"
  chmod +x "$memory/program"
  ! "$memory/program" 2>/dev/null || export TMPDIR=$memory
}

[[ ${1:-} != --help && ${1:-} != -h ]] || { usage && exit; }
enter_environment
use_memory
cd "$repository"
export OMP_NUM_THREADS=1
unset PYTHONDONTWRITEBYTECODE # hundreds of processes would each compile the package anew
python -m pytest --numprocesses auto --max-worker-restart 1 --dist loadfile --no-loadscope-reorder "$@"
