# shellcheck shell=bash
# Shell functions that the scripts share. Those for work in stages speak of the folder OUT_DIR, which the script
# sets once it knows it.

OUT_DIR=''
letter=i
[[ $letter =~ ^[a-z]$ ]] || export LC_ALL=C.UTF-8 # as in Turkish, which has other letters
unset CDPATH         # with it, cd prints folders and goes to others than the one named
unset PYTHONSAFEPATH # with it, Python does not find what lies beside a script
shopt -u patsub_replacement 2>/dev/null || true # with it, from bash 5.2 on, '&' in a path stands for something else
script=$(basename "$0" .sh)
made_by=$script # to which scripts that make several data sets add the one
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# die SENTENCE: one plain sentence on stderr, then the end. What would steer a terminal is shown as '?', here and in say.
die() {
  printf '%s: %s\n' "$script" "${1//[[:cntrl:]]/?}" >&2
  exit 1
}

# check_path PATH: dies if fairseq would not take a path, made absolute, for what it is.
check_path() {
  local path=$1
  [[ $path == /* ]] || path=$PWD/$path
  [[ ! $path =~ :|\$\{ ]] || die "'${BASH_REMATCH[0]}' in a path has a meaning for fairseq: use another folder than $path."
}

((BASH_VERSINFO[0] >= 5)) || die "this needs bash 5 or later, and this is bash $BASH_VERSION."
check_path "$repository"
[[ -t 1 ]] || export TQDM_MININTERVAL=10 # seconds between the progress lines that go to a file

# say TEXT: progress, on stdout and in OUT_DIR/logs.
say() {
  set -- "${1//[[:cntrl:]]/?}"
  printf '%(%T)T %s\n' -1 "$1"
  if [[ -d $OUT_DIR/logs ]]; then
    { printf '%(%F %T)T %s\n' -1 "$1" >>"$OUT_DIR/logs/$script.log"; } 2>/dev/null || true
  fi
}

# whole_number FLAG VALUE: dies unless VALUE is a whole number of at least 1.
whole_number() {
  [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || die "$1 needs a whole number of at least 1, not '$2'."
}

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

# ours MODULE ARGUMENTS...: runs a module of ea_fairseq.
ours() {
  PYTHONPATH=$repository "$python" -P -m "ea_fairseq.$1" "${@:2}"
}

# check_out_dir: dies if OUT_DIR will not do, or is there but is not a folder of this script; one in which another script
# failed before it made anything will do.
check_out_dir() {
  local maker log
  check_path "$OUT_DIR"
  [[ ! -e $OUT_DIR || -d $OUT_DIR ]] || die "$OUT_DIR is not a folder: give a folder for the output."
  [[ ! -d $OUT_DIR || -d $OUT_DIR/.stages || -z $(ls -A "$OUT_DIR") ]] ||
    die "$OUT_DIR holds other files: give a new folder, or that of an earlier run."
  [[ -d $OUT_DIR/.stages && $(made_in "$OUT_DIR") ]] || return 0
  if [[ -f $OUT_DIR/.stages/made-by ]]; then
    maker=$(<"$OUT_DIR/.stages/made-by")
  else # an earlier version left nothing but its logs
    maker=$made_by
    for log in "$OUT_DIR"/logs/{prepare-*,evaluate,sweep,ablation,quickstart}.log; do
      [[ ! -f $log || -f $OUT_DIR/logs/$script.log ]] || maker=$(basename "$log" .log)
    done
  fi
  [[ $maker == "$made_by" ]] || die "$OUT_DIR was made by $maker: give a new folder, or that of an earlier run of $made_by."
}

# made_in FOLDER: prints a file that a script made in a folder, nothing where there is none but stamps and logs.
made_in() {
  (cd "$1" && find . \( -path ./.stages -o -path ./logs \) -prune -o ! -type d -print -quit)
}

# open_out_dir: makes OUT_DIR and waits until no other run, nor what a killed run left working, is at work in it.
open_out_dir() {
  local flaw="cannot write in $OUT_DIR: check its permissions and the space on its disk." note=$OUT_DIR/.stages/made-by
  { mkdir -p "$OUT_DIR/.stages" "$OUT_DIR/logs" && : >>"$OUT_DIR/.stages/lock"; } 2>/dev/null || die "$flaw"
  wait_for_lock "$OUT_DIR/.stages/lock"
  check_out_dir # again: another script may have made something here meanwhile
  [[ -f $note && $(<"$note") == "$made_by" ]] || { printf '%s\n' "$made_by" >"$note"; } 2>/dev/null || die "$flaw"
}

# wait_for_lock FILE [FOLDER]: waits until no other process holds the lock FILE, for work in FOLDER, by default OUT_DIR;
# then this one holds it, and those it starts. It is that of flock, which not every machine has: Python locks the file
# that stays open here, and ends.
wait_for_lock() {
  exec 9>>"$1"
  "$python" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null && return
  say "waiting for another run in ${2:-$OUT_DIR} to end"
  "$python" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' 2>/dev/null ||
    die "cannot lock $1: give a folder on a disk that knows locks."
}

# release_lock: gives the lock back before this process ends.
release_lock() {
  exec 9>&-
}

# is_made OUTPUT SETTINGS: whether OUTPUT is there and stamped with these SETTINGS, and no link in it leads nowhere.
is_made() {
  local output=$OUT_DIR/$1
  [[ -e $output && -z $(find "$output" -maxdepth 1 -xtype l) ]] && is_stamped "$@"
}

# is_stamped OUTPUT SETTINGS: whether OUTPUT is stamped with these SETTINGS, wherever the project was then.
is_stamped() {
  local stamp=$OUT_DIR/.stages/${1//\//.}
  [[ -f $stamp && $(without_place "$(<"$stamp")") == "$(without_place "$2")" ]]
}

# is_other OUTPUT SETTINGS: whether OUTPUT is stamped, but with other SETTINGS.
is_other() {
  [[ -f $OUT_DIR/.stages/${1//\//.} ]] && ! is_stamped "$@"
}

# without_place SETTINGS: prints SETTINGS with the paths in this project relative, as they stay when it is moved.
without_place() {
  printf '%s\n' "${1//"$repository/"/}"
}

# stamp OUTPUT SETTINGS: notes that OUTPUT is made with these SETTINGS.
stamp() {
  local stamp=$OUT_DIR/.stages/${1//\//.}
  without_place "$2" >"$stamp.tmp" && mv "$stamp.tmp" "$stamp"
}

# stage OUTPUT SETTINGS COMMAND...: makes the file or folder OUT_DIR/OUTPUT with `COMMAND... OUT_DIR/OUTPUT.tmp`,
# unless it is there and was made with the same SETTINGS, a text that names all that it depends on. A COMMAND that is a
# function has to return what fails in it: in there, set -e has no effect.
stage() {
  local name=$1 settings=$2 status=0
  local output=$OUT_DIR/$name stamp=$OUT_DIR/.stages/${name//\//.}
  shift 2
  if is_made "$name" "$settings"; then
    say "$name: already made"
    return
  fi
  say "$name: making it"
  { rm -rf "$stamp" "$output.tmp" && mkdir -p "$(dirname "$output")"; } 2>/dev/null ||
    die "cannot write $name in $OUT_DIR: check its permissions and the space on its disk."
  "$@" "$output.tmp" || status=$?
  if ((status)); then
    rm -rf "$output.tmp"
    ((status > 128)) || exit "$status"
    die "making $name was stopped by signal $((status - 128)) (9 often means too little memory): the same command goes on from there."
  fi
  { rm -rf "$output" && mv "$output.tmp" "$output" && stamp "$name" "$settings"; } 2>/dev/null ||
    die "cannot put $name in place in $OUT_DIR: check its permissions and the space on its disk, then run the same command again."
}
