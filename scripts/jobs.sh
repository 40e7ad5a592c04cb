# shellcheck shell=bash disable=SC2034,SC2154 # scripts use `out` and `flags_of_all`; lib.sh sets repository
# Jobs: trainings and their evaluations, each in a folder of OUT_DIR, as many at once as there are places for them.

# shellcheck source=scripts/recipe.sh
source "$repository/scripts/recipe.sh"

# The options that sweep.sh and ablation.sh share, and what they ask for.
data='' out='' seeds=1 jobs='' devices='' flags_of_all=()
subset='' scores=evaluation          # what is scored, empty: what evaluate.sh takes; and the scores' folder in a job's
folders=()                           # of the jobs, in their order
declare -A training=() done_with=()  # of each job, the words of its training, and all that its scores depend on
declare -A running=()                # of each process, its step, folder and device
places=()                            # devices that are free, one for each job that may start
failed=()
tie=()                               # before a command: it does not outlive this script
! command -v setpriv >/dev/null || tie=(setpriv --pdeathsig KILL)

# jobs_usage: the options that sweep.sh and ablation.sh share.
jobs_usage() {
  cat <<USAGE
  --seeds N,N,...     seeds to train each model with (default: $seeds)
  --jobs N            trainings at once (default: one for each device; on the CPU one for each core)
  --devices N,N,...   GPUs by their numbers, or cpu (default: all the GPUs there are, or else cpu)
USAGE
}

# check_jobs: checks the options that sweep.sh and ablation.sh share, and sets `places` and `threads`.
check_jobs() {
  local list cores index
  cores=$(nproc) threads=''
  [[ " ${flags_of_all[*]} " != *' --seed'[\ =]* ]] || die "--seed is not for all: name the seeds with --seeds."
  [[ ,$seeds =~ ^(,(0|[1-9][0-9]*))+$ ]] || die "--seeds needs whole numbers with commas between them, not '$seeds'."
  [[ ! $jobs ]] || whole_number --jobs "$jobs"
  : "${devices:=${CUDA_VISIBLE_DEVICES-$(gpu_numbers)}}"
  [[ ${devices:=cpu} =~ ^[A-Za-z0-9/-]+(,[A-Za-z0-9/-]+)*$ ]] ||
    die "--devices needs numbers of GPUs with commas between them, or cpu, not '$devices'."
  IFS=, read -ra list <<<"$devices"
  if [[ $devices == cpu ]]; then
    : "${jobs:=$cores}"
    threads=$((jobs < cores ? cores / jobs : 1))
  fi
  : "${jobs:=${#list[@]}}"
  for ((index = 0; index < jobs; index++)); do places+=("${list[index % ${#list[@]}]}"); done
}

# open_jobs FOLDER: checks the options that sweep.sh and ablation.sh share, makes OUT_DIR, by default FOLDER, and sets
# `data_checksum`.
open_jobs() {
  check_jobs
  OUT_DIR=${out:-$1}
  check_out_dir
  find_python
  open_out_dir
  OUT_DIR=$(cd "$OUT_DIR" && pwd)
  data_checksum=$(cksum "$data/manifest.json" 2>/dev/null || ours experiments.runs.data_checksum "$data")
}

# gpu_numbers: prints the numbers of the GPUs there are, with commas between them.
gpu_numbers() {
  nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null | paste -sd , || true
}

# add_job FOLDER RECIPE WORDS...: adds the training by train.sh WORDS in a folder of OUT_DIR, and its evaluation.
add_job() {
  [[ ! ${training[$1]-} ]] || die "$1 would be trained twice: give each seed and each value once."
  folders+=("$1")
  training[$1]=$(printf '%q ' "${@:3}")
  done_with[$1]="$data $data_checksum $subset $(recipe_text "$2" | cksum) ${training[$1]}"
}

# run_jobs: does what is not done yet, and notes in `failed` what fails.
run_jobs() {
  local folder
  trap 'stop_jobs 129' HUP
  trap 'stop_jobs 130' INT
  trap 'stop_jobs 143' TERM
  for folder in "${folders[@]}"; do
    if is_made "$folder/$scores/results.json" "${done_with[$folder]}"; then
      say "$folder: already done"
      continue
    fi
    while ((${#places[@]} == 0)); do collect; done
    start train "$folder" "${places[0]}"
    places=("${places[@]:1}")
  done
  while ((${#running[@]})); do collect; done
  trap - HUP INT TERM
}

# start STEP FOLDER DEVICE: starts a step of a job.
start() {
  local log=$OUT_DIR/logs/${2//\//.}.log words value command
  eval "words=(${training[$2]})"
  case $1 in
    train) command=(train.sh --data "$data" --out "$OUT_DIR/$2" "${words[@]}") ;;
    evaluate)
      find_last --user-dir "${words[@]}"
      command=(evaluate.sh "$data" "$OUT_DIR/$2" ${subset:+--subset "$subset" --out "$OUT_DIR/$2/$scores"}
        ${value:+--user-dir "$value"})
      ;;
  esac
  say "$2: $1 on device $3"
  (
    export CUDA_VISIBLE_DEVICES=${3#cpu} ${threads:+OMP_NUM_THREADS="${OMP_NUM_THREADS:-$threads}"}
    exec "${tie[@]}" bash "$repository/scripts/${command[0]}" "${command[@]:1}" </dev/null >>"$log" 2>&1
  ) &
  running[$!]="$1 $2 $3"
}

# collect: waits until a step ends; of those that ended, starts the next step, or gives the device back.
collect() {
  local alive pid step folder device
  wait -n || true
  alive=" $(jobs -pr | tr '\n' ' ')"
  for pid in "${!running[@]}"; do
    [[ $alive != *" $pid "* ]] || continue
    read -r step folder device <<<"${running[$pid]}"
    unset "running[$pid]"
    if ! wait "$pid"; then
      say "$folder: $step failed"
      failed+=("$folder")
    elif [[ $step == train ]]; then
      start evaluate "$folder" "$device"
      continue
    else
      say "$folder: done"
      stamp "$folder/$scores/results.json" "${done_with[$folder]}"
    fi
    places+=("$device")
  done
}

# stop_jobs STATUS: stops all that is running, and ends.
stop_jobs() {
  local pid
  trap '' HUP INT TERM
  for pid in "${!running[@]}"; do stop_tree "$pid"; done
  wait
  say "stopped: the same command goes on from here."
  exit "$1"
}

# stop_tree PID: stops a process and all that it started.
stop_tree() {
  local child children
  read -ra children <"/proc/$1/task/$1/children" || true
  kill "$1" || true
  for child in "${children[@]}"; do stop_tree "$child"; done
} 2>/dev/null

# done_jobs: prints the folders of the evaluations that are there.
done_jobs() {
  local folder
  for folder in "${folders[@]}"; do
    [[ " ${failed[*]} " == *" $folder "* ]] || printf '%s\n' "$OUT_DIR/$folder/$scores"
  done
}

# report_failures: dies if a job failed, after the end of the log of each that did.
report_failures() {
  local folder log
  ((${#failed[@]})) || return 0
  for folder in "${failed[@]}"; do
    log=$OUT_DIR/logs/${folder//\//.}.log
    say "$folder failed, see $log, which ends: $(tail -n 1 "$log")"
  done
  die "${#failed[@]} of ${#folders[@]} failed: put that right, and the same command goes on with what is left."
}
