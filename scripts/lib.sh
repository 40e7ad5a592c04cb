# shellcheck shell=bash
# What the front doors share: the project's folder, a Python for its commands, and sentences for what is wrong.

letter=i
[[ $letter =~ ^[a-z]$ ]] || export LC_ALL=C.UTF-8 # as in Turkish, which has other letters
unset CDPATH         # with it, cd prints folders and goes to others than the one named
unset PYTHONSAFEPATH # with it, Python does not find what lies beside a script
shopt -u patsub_replacement 2>/dev/null || true # with it, from bash 5.2 on, '&' in a path stands for something else
python='' script=$(basename "$0" .sh)
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# die SENTENCE: one plain sentence on stderr, then the end. What would steer a terminal is shown as '?', here and in say.
die() {
  printf '%s: %s\n' "$script" "${1//[[:cntrl:]]/?}" >&2
  exit 1
}

# say TEXT: progress, with the time.
say() {
  printf '%(%T)T %s\n' -1 "${1//[[:cntrl:]]/?}"
}

((BASH_VERSINFO[0] >= 5)) || die "this needs bash 5 or later, and this is bash $BASH_VERSION."
[[ ! $repository =~ :|\$\{ ]] || die "'${BASH_REMATCH[0]}' in a path has a meaning for fairseq: use another folder than $repository."

# find_python: sets `python` to the active Python that has fairseq, else to that of the repository's .venv.
find_python() {
  local candidate
  for candidate in python python3 "$repository/.venv/bin/python"; do
    python=$(command -v "$candidate") || continue
    "$python" -P -c 'from importlib.util import find_spec; raise SystemExit(find_spec("fairseq") is None)' \
      >/dev/null 2>&1 && return
  done
  die "no active Python has fairseq: activate the environment that this project is installed in, or make one in $repository/.venv and run '.venv/bin/pip install -e . -c constraints.txt' there."
}

# install_missing WHAT PACKAGES...: installs packages into the environment of `python`, if one of them is not there.
install_missing() {
  local what=$1 names
  shift
  "$python" -c 'import sys; from importlib.metadata import version; list(map(version, sys.argv[1:]))' "$@" 2>/dev/null && return
  names=$(printf '%s, ' "$@")
  say "installing $what (${names%, })"
  "$python" -m pip install -q --disable-pip-version-check --constraint "$repository/constraints.txt" "$@" ||
    die "installing ${names%, } failed, see above: run 'pip install $*' in the environment of $python."
}

# become COMMAND ARGUMENTS...: becomes a command of the package, in `python` where that is set.
become() {
  [[ ${python:-} ]] || find_python
  PYTHONPATH=$repository${PYTHONPATH:+:$PYTHONPATH} exec "$python" -P -m ea_fairseq "$@"
}
