# shellcheck shell=bash
# Shell functions shared by the prepare-*.sh scripts; source it after setting OUT_DIR where stages are run.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
steps=$repository/data-prep/corpus

# die SENTENCE: one plain sentence on stderr, then the end.
die() {
  printf '%s: %s\n' "$(basename "$0" .sh)" "$1" >&2
  exit 1
}

# say TEXT: progress, on stdout and in OUT_DIR/logs.
say() {
  printf '%(%H:%M:%S)T %s\n' -1 "$1"
  if [[ -d ${OUT_DIR:-}/logs ]]; then
    { printf '%(%F %T)T %s\n' -1 "$1" >>"$OUT_DIR/logs/$(basename "$0" .sh).log"; } 2>/dev/null || true
  fi
}

# whole_number FLAG VALUE: dies unless VALUE is a whole number of at least 1.
whole_number() {
  [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || die "$1 needs a whole number of at least 1, not '$2'."
}

# find_python: sets `python` to the active Python that has fairseq, else to the one of the repository's .venv.
find_python() {
  local candidate
  for candidate in python python3 "$repository/.venv/bin/python"; do
    python=$(command -v "$candidate") || continue
    "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("fairseq") is None)' \
      >/dev/null 2>&1 && return
  done
  die "no Python with fairseq is active: activate the environment this project is installed in, or make one with 'python3.11 -m venv .venv && .venv/bin/pip install -e . -c constraints.txt' in $repository."
}

# open_out_dir: makes OUT_DIR and waits until no other run, nor what is left of a killed one, works in it.
open_out_dir() {
  mkdir -p "$OUT_DIR/logs" "$OUT_DIR/.stages" 2>/dev/null ||
    die "cannot make the folder $OUT_DIR: check that its path is a folder that you may write to and that the disk has space."
  if command -v flock >/dev/null; then
    exec 9>"$OUT_DIR/.stages/lock"
    flock -n 9 || { say "waiting for another run in $OUT_DIR to end" && flock 9; }
  fi
}

# stage OUTPUT SETTINGS COMMAND...: makes the file or folder OUT_DIR/OUTPUT by `COMMAND... OUT_DIR/OUTPUT.tmp`, unless it
# is there and was made with the same SETTINGS, a text that names all it depends on.
stage() {
  local name=$1 settings=$2 status=0
  local output=$OUT_DIR/$name stamp=$OUT_DIR/.stages/${1//\//.}
  shift 2
  if [[ -e $output && -f $stamp && $(<"$stamp") == "$settings" ]]; then
    say "$name: already made"
    return
  fi
  say "$name: making it"
  rm -rf "$stamp" "$output.tmp"
  "$@" "$output.tmp" || status=$?
  if ((status > 128)); then
    die "making $name was stopped by signal $((status - 128)) (9 often means too little memory): run the same command again to go on from there."
  fi
  ((status == 0)) || exit "$status"
  { rm -rf "$output" && mv "$output.tmp" "$output" &&
    printf '%s\n' "$settings" >"$stamp.tmp" && mv "$stamp.tmp" "$stamp"; } 2>/dev/null ||
    die "cannot put $name in place in $OUT_DIR: check its permissions and the space on its disk, then run the same command again."
}
