# shellcheck shell=bash disable=SC2154 # lib.sh sets repository
# The project's own environment: Python packages in .venv, of the versions in constraints.txt.

# find_base_python: prints a Python 3.11 or 3.12 to make .venv from.
find_base_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.11 python3.12 python3 python; do
    [[ $candidate ]] || continue
    "$candidate" -c 'import sys, venv; sys.exit(sys.version_info[:2] not in {(3, 11), (3, 12)})' >/dev/null 2>&1 || continue
    printf '%s\n' "$candidate"
    return
  done
  die "this needs Python 3.11 or 3.12 with venv: install one, and if it is not called python3, name it with PYTHON=..."
}

# enter_environment: makes or updates .venv where it is not complete, and puts it first on PATH.
enter_environment() {
  local environment=$repository/.venv wanted
  wanted=$(cat "$repository"/{setup.py,constraints.txt,ea_fairseq/native/*} | cksum)
  if [[ ! -f $environment/complete || $(<"$environment/complete") != "$wanted" ]]; then
    say "making the Python environment in $environment (some minutes: on Python 3.11, fairseq is compiled)"
    make_environment "$environment"
    printf '%s\n' "$wanted" >"$environment/complete"
  fi
  export PATH=$environment/bin:$PATH
  hash -r
}

make_environment() {
  local environment=$1 base constraints=$repository/constraints.txt python=$1/bin/python
  base=$(find_base_python)
  "$python" -m pip --version >/dev/null 2>&1 || "$base" -m venv --clear "$environment" ||
    die "could not make $environment: check the space on its disk and that Python's venv module is installed."
  rm -f "$environment/complete"
  # Build environments are constrained, too, or compiling fairseq would fetch another torch than the one installed.
  if ! { "$python" -m pip install --quiet --disable-pip-version-check "$(grep '^pip==' "$constraints")" &&
    "$python" -m pip install --disable-pip-version-check --progress-bar off --constraint "$constraints" \
      --build-constraint "$constraints" --editable "${repository}[dev]"; }; then
    die "installing failed: see pip's message above, then run the same command again."
  fi
  say "$(env -u EA_BACKEND "$python" -P -m ea_fairseq | sed -n 's/^native code  */native code: /p')"
}

# use_huge_pages: lets glibc keep freed memory and hold it in huge pages. Training on a CPU takes and frees hundreds of
# megabytes at every update, a wide beam at every step, and without this spends up to half of its time on page faults.
use_huge_pages() {
  export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
  export MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=8000000000 MALLOC_TOP_PAD_=500000000
}
