# shellcheck shell=bash disable=SC2154 # lib.sh sets repository
# The project's own environment: .venv has the Python packages in the versions of constraints.txt.

# find_base_python MODULE: prints a Python that has MODULE, to make an environment from. If PYTHON is set, only that one
# is tried.
find_base_python() {
  local candidate candidates=(python3.11 python3.12 python3.13 python3.14 python3 python)
  [[ ! ${PYTHON:-} ]] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    "$candidate" -c "import sys, $1; sys.exit(not (3, 11) <= sys.version_info < (3, 15))" >/dev/null 2>&1 || continue
    printf '%s\n' "$candidate"
    return
  done
  [[ $1 == venv ]] || die "no active Python 3.11 to 3.14 has $1: install it first."
  die "this needs Python 3.11 to 3.14 with venv${PYTHON:+, and PYTHON=$PYTHON is not one}: install one, and if it is not called python3, name it with PYTHON=..."
}

# enter_environment: makes or updates .venv if it is not complete, and puts it first on PATH. If several scripts find it
# incomplete, one of them makes it and the others wait.
enter_environment() {
  local environment=$repository/.venv wanted why=''
  check_version "$environment"
  wanted=$(cat "$repository"/{setup.py,pyproject.toml,constraints.txt,ea_fairseq/kernels/cpu/*.[ch]} | cksum)
  if ! is_complete "$environment" "$wanted"; then
    python=$(find_base_python venv)
    { : >>"$environment.lock"; } 2>/dev/null ||
      die "cannot write in $repository: check its permissions and the space on its disk."
    wait_for_lock "$environment"
    if ! is_complete "$environment" "$wanted"; then
      ! was_moved "$environment" || why=' anew, because it was made in another folder'
      say "making the Python environment in $environment$why: some minutes; pip's output is in $environment/pip.log"
      make_environment "$environment"
      printf '%s\n' "$wanted" >"$environment/complete"
    fi
    exec 9>&-
  fi
  export PATH=$environment/bin:$PATH
  hash -r
}

# wait_for_lock FOLDER: waits until no other process holds FOLDER.lock, then locks it as file descriptor 9.
wait_for_lock() {
  exec 9>>"$1.lock"
  "$python" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null && return
  say "waiting for another run in $1 to end"
  "$python" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' 2>/dev/null ||
    die "cannot lock $1.lock: give a folder on a disk that supports locks."
}

# find_programs: sets `python` as find_python does. If .venv was moved, its programs do not start, so it is made again.
find_programs() {
  find_python
  [[ $python == "$repository/.venv/bin/python" ]] && was_moved "$repository/.venv" || return 0
  enter_environment
  find_python
}

# is_complete FOLDER STAMP: succeeds if the environment works and was made from files with the checksum STAMP.
is_complete() {
  [[ -f $1/complete && $(<"$1/complete") == "$2" ]] && has_fairseq "$1" && ! was_moved "$1"
}

# was_moved FOLDER: succeeds if the environment was made in another folder. Its programs would start the Python there.
was_moved() {
  local place
  place=$(sed -n '1,2s|^[^/]*\(/.*\)/bin/python.*|\1|p' "$1/bin/pip" 2>/dev/null) || return
  [[ $place && ! $place -ef $1 ]]
}

# has_fairseq FOLDER: succeeds if the environment's Python finds fairseq. It does not if the system's Python was
# replaced by a newer version.
has_fairseq() {
  "$1/bin/python" -P -c 'from importlib.util import find_spec; raise SystemExit(find_spec("fairseq") is None)' 2>/dev/null
}

# check_version FOLDER: exits with an error if PYTHON is set and the environment has another version of Python.
check_version() {
  local base there
  [[ ${PYTHON:-} ]] || return 0
  base=$(find_base_python venv)
  there=$(version_of "$1/bin/python" 2>/dev/null) || return 0
  [[ $there == "$(version_of "$base")" ]] ||
    die "$1 has Python $there, but PYTHON=$PYTHON is Python $(version_of "$base"): remove that folder first."
}

# make_environment FOLDER: makes the environment, or completes it if it exists.
make_environment() {
  local environment=$1 base log constraints=$repository/constraints.txt python=$1/bin/python
  base=$(find_base_python venv)
  if was_moved "$environment" || ! "$python" -m pip --version >/dev/null 2>&1; then
    "$base" -m venv --clear "$environment" ||
      die "could not make $environment: check the space on its disk and that Python's venv module is installed."
  fi
  rm -f "$environment/complete"
  log=$environment/pip.log
  : >"$log"
  # Constrain build environments, too. Otherwise compiling fairseq would download another torch than the installed one.
  if ! { logged "$log" "$python" -m pip install "$(grep '^pip==' "$constraints")" &&
    prefer_torch_without_cuda "$python" "$constraints" "$log" &&
    logged "$log" "$python" -m pip install --constraint "$constraints" --build-constraint "$constraints" \
      --editable "${repository}[dev]"; }; then
    tail -n 20 "$log" >&2
    die "installing failed, see above and $log (except on Python 3.12, fairseq is compiled, which needs a C++ compiler and Python's headers): fix that, then run the same command again."
  fi
  say "$(env -u EA_BACKEND "$python" -P -m ea_fairseq | sed -n 's/^native code  */native code: /p')"
}

# logged FILE COMMAND...: runs pip and appends its output to FILE. A terminal shows its last line.
logged() {
  local log=$1 status=0 shown='' width
  shift
  if [[ -t 1 ]]; then
    width=$(tput cols 2>/dev/null || echo 80)
    while sleep 1 && kill -0 "$$" 2>/dev/null; do
      printf '\r%s\e[K' "$(tail -n 1 "$log" | tr -cd '[:print:]' | cut -c "1-$((width - 1))")"
    done &
    shown=$!
  fi
  PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_PROGRESS_BAR=off "$@" >>"$log" 2>&1 || status=$?
  if [[ $shown ]]; then
    kill "$shown"
    wait "$shown" || true
    printf '\r\e[K'
  fi
  return "$status"
}

# version_of PYTHON: prints its version, such as 3.12.
version_of() {
  "$1" -c 'import sys; print(*sys.version_info[:2], sep=".")'
}

# prefer_torch_without_cuda PYTHON CONSTRAINTS LOG: on Linux without an NVIDIA GPU, installs PyTorch's build for CPUs if
# pip finds one. PyPI only has the build with CUDA.
prefer_torch_without_cuda() {
  local index=https://download.pytorch.org/whl/cpu
  [[ $(uname -s) == Linux ]] && ! nvidia-smi -L >/dev/null 2>&1 || return 0
  logged "$3" "$1" -m pip install --retries 0 --timeout 20 --no-deps --index-url "$index" --constraint "$2" torch ||
    say "pip finds no torch without CUDA for Python $(version_of "$1") ($index cannot be reached): it uses the one with CUDA from PyPI, 1.5 GB to download and 3 GB more on disk"
}
