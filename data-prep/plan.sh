# shellcheck shell=bash disable=SC2154 # options.sh sets the options
# A plan of steps: made first, then shown or run. Only what the last step needs and what is not there yet is run.

# The steps in their order; of each, the steps whose output it needs, the stamp that says what its output is made of
# and how, its command, about how many bytes it writes, if it makes links, the place they lead to, and for whoever reads
# the plan, a remark.
planned=()
declare -A needs=() stamps=() commands=() sizes=() places=() remarks=()

# plan OUTPUT SIZE SETTINGS NEEDS COMMAND...: plans to make OUTPUT of the outputs NEEDS by `COMMAND... OUTPUT`.
plan() {
  local output=$1 settings=$3 input
  for input in $4; do settings+=$'\n'${stamps[$input]}; done
  planned+=("$output")
  sizes[$output]=$2
  needs[$output]=$4
  stamps[$output]=$(sha256sum <<<"$output $settings" | cut -d ' ' -f 1)
  commands[$output]=$(printf '%q ' "${@:5}")
}

# find_todo: sets `todo` to the steps to run.
find_todo() {
  local i output wanted=" ${planned[-1]} "
  todo=()
  for ((i = ${#planned[@]} - 1; i >= 0; i--)); do
    output=${planned[i]}
    if [[ $wanted == *" $output "* ]] && ! is_made "$output" "${stamps[$output]} ${places[$output]-}"; then
      todo=("$output" "${todo[@]}")
      wanted+="${needs[$output]} "
    fi
  done
}

# is_intermediate OUTPUT: whether OUTPUT is text between sources and result.
is_intermediate() {
  [[ $1 =~ ^(extracted|tokenized|cleaned|subword)/|^split$ ]]
}

# still_needed OUTPUT STEP...: whether one of the steps needs OUTPUT.
still_needed() {
  local output=$1 step
  shift
  for step in "$@"; do [[ " ${needs[$step]} " != *" $output "* ]] || return 0; done
  return 1
}

# run_plan: runs the steps to run.
run_plan() {
  local output stamp
  ((${#todo[@]})) || say "${planned[-1]}: already made"
  [[ ! $remove_intermediate ]] || remove_unneeded
  while ((${#todo[@]})); do
    output=${todo[0]}
    stamp="${stamps[$output]} ${places[$output]-}"
    eval "stage ${output@Q} ${stamp@Q} ${commands[$output]}"
    todo=("${todo[@]:1}")
    [[ ! $remove_intermediate ]] || remove_unneeded
  done
}

# remove_unneeded: removes the text that none of the steps to run needs.
remove_unneeded() {
  local output
  for output in "${planned[@]}"; do
    if is_intermediate "$output" && [[ -e $OUT_DIR/$output ]] && ! still_needed "$output" "${todo[@]}"; then
      say "$output: no longer needed, removing it"
      rm -rf "$OUT_DIR/.stages/${output//\//.}" "${OUT_DIR:?}/$output"
      rmdir "$(dirname "$OUT_DIR/$output")" 2>/dev/null || true
    fi
  done
}

# human BYTES: a size to read.
human() {
  numfmt --to=si --suffix=B --format='%.1f' "$1"
}

# disk_needed: about how many bytes the steps to run will take on the disk at most.
disk_needed() {
  local output input now=0 most=0 i
  for i in "${!todo[@]}"; do
    output=${todo[i]}
    now=$((now + ${sizes[$output]}))
    ((now <= most)) || most=$now
    [[ $remove_intermediate ]] || continue
    for input in ${needs[$output]}; do
      is_intermediate "$input" && [[ " ${todo[*]} " == *" $input "* ]] && ! still_needed "$input" "${todo[@]:i+1}" &&
        now=$((now - ${sizes[$input]}))
    done
  done
  echo "$most"
}

# disk_free: how many bytes are free where OUT_DIR is or will be.
disk_free() {
  local folder=$OUT_DIR
  until [[ -d $folder ]]; do folder=$(dirname "$folder"); done
  echo $((1024 * $(df --output=avail -k "$folder" | tail -n 1)))
}

# size_of OUTPUT: the size of a step's output to read, or a word where there is no figure: text for validation and tests
# and subword models are small.
size_of() {
  case ${sizes[$1]}$1${remarks[$1]-} in
    0archives/*from\ http*) echo unknown ;;
    0archives/* | 0corpus/*) echo linked ;;
    0[!0-9]*) echo small ;;
    *) human "${sizes[$1]}" ;;
  esac
}

# show_plan: prints the steps to run and the disk they take.
show_plan() {
  local output remark
  printf 'plan for %s:\n' "$OUT_DIR"
  for output in "${planned[@]}"; do
    if [[ " ${todo[*]} " == *" $output "* ]]; then
      remark=${remarks[$output]-}
      ! is_other "$output" "${stamps[$output]} ${places[$output]-}" || remark+="${remark:+, }in place of other"
      printf '  %-38s %9s  %s\n' "$output" "$(size_of "$output")" "$remark"
    else
      printf '  %-38s %9s  %s\n' "$output" '' '(nothing to do)'
    fi
  done
  printf 'disk: about %s needed, %s free\n' "$(human "$(disk_needed)")" "$(human "$(disk_free)")"
}

# check_disk: dies if the disk is too small for the plan.
check_disk() {
  local needed free
  needed=$(disk_needed) free=$(disk_free)
  ((needed <= free)) ||
    die "$OUT_DIR needs about $(human "$needed") and its disk has $(human "$free") free: free some, use another disk, or try --compress and --remove-intermediate."
}
