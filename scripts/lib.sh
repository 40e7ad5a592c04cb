# shellcheck shell=bash
# Functions that all scripts share: they find the project's folder and its Python, and print messages.

letter=i
[[ $letter =~ ^[a-z]$ ]] || export LC_ALL=C.UTF-8 # in some locales, such as Turkish, [a-z] lacks letters
unset CDPATH         # with it, cd prints folders and may enter another folder than the one named
unset PYTHONSAFEPATH # with it, Python does not find modules in a script's folder
shopt -u patsub_replacement 2>/dev/null || true # from bash 5.2 on; with it, '&' in a replacement is the matched text
python='' script=$(basename "$0" .sh)
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# die SENTENCE: prints a sentence on stderr and exits with status 1. Here and in say, '?' replaces control characters.
die() {
  printf '%s: %s\n' "$script" "${1//[[:cntrl:]]/?}" >&2
  exit 1
}

# say TEXT: prints a line of progress with the time.
say() {
  printf '%(%T)T %s\n' -1 "${1//[[:cntrl:]]/?}"
}

((BASH_VERSINFO[0] >= 5)) || die "this needs bash 5 or later, and this is bash $BASH_VERSION."
[[ ! $repository =~ :|\$\{ ]] || die "'${BASH_REMATCH[0]}' in a path has a meaning for fairseq: use another folder than $repository."

# find_python: sets `python` to the active Python if it has fairseq, otherwise to that of .venv.
find_python() {
  local candidate
  for candidate in python python3 "$repository/.venv/bin/python"; do
    python=$(command -v "$candidate") || continue
    "$python" -P -c 'from importlib.util import find_spec; raise SystemExit(find_spec("fairseq") is None)' \
      >/dev/null 2>&1 && return
  done
  die "no active Python has fairseq: activate the environment that this project is installed in, or make one in $repository/.venv and run '.venv/bin/pip install -e . -c constraints.txt' there."
}

# install_missing WHAT PACKAGES...: installs PACKAGES into the environment of `python` if one of them is missing. WHAT
# describes them in the message.
install_missing() {
  local what=$1 names
  shift
  "$python" -c 'import sys; from importlib.metadata import version; list(map(version, sys.argv[1:]))' "$@" 2>/dev/null && return
  names=$(printf '%s, ' "$@")
  say "installing $what (${names%, })"
  "$python" -m pip install -q --disable-pip-version-check --constraint "$repository/constraints.txt" "$@" ||
    die "installing ${names%, } failed, see above: run 'pip install $*' in the environment of $python."
}

# become COMMAND ARGUMENTS...: replaces this script by a command of the package, run by `python` (by default that of
# find_python).
become() {
  [[ ${python:-} ]] || find_python
  PYTHONPATH=$repository${PYTHONPATH:+:$PYTHONPATH} exec "$python" -P -m ea_fairseq "$@"
}
