#!/usr/bin/env bash
# Searches hyper-parameters on the validation set; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/jobs.sh
source "$repository/scripts/jobs.sh"

usage() {
  cat <<USAGE
usage: bash scripts/sweep.sh RECIPE --try FLAG VALUE... [--try FLAG VALUE...] [options] [-- flags of fairseq-train]

Trains by a recipe with every combination of the values to try, each as train.sh does, evaluates each on the validation
set, in its folder validation, and prints them, the best first. Stopped at any moment, the same command goes on; what is
done is not done again. What fails is told at the end; the rest goes on meanwhile.

  --try FLAG VALUE... values of a flag of fairseq-train to try
$(jobs_usage)
  --data DIR          folder of the binarised data (default: what the recipe's [data] makes)
  --out DIR           folder for all of it (default: runs/sweep/RECIPE)
  --help              show this text

example, the papers' search, then that of alpha and beta:
  bash scripts/sweep.sh iwslt14-deen/ea_transformer_lite --try --lr 1e-4 5e-4 1e-3 --try --dropout 0.1 0.2 0.3
  bash scripts/sweep.sh iwslt14-deen/ea_transformer_lite --out runs/alpha-beta \\
    --try --ea-alpha 0.1 0.3 0.5 --try --ea-beta 0.1 0.3 0.5
USAGE
}

# try FLAG VALUE...: combines each value with each of the combinations so far.
try() {
  local combination value combined=()
  [[ ${1-} == --* && $# -gt 1 ]] || die "--try needs a flag and its values, such as --try --lr 5e-4 1e-3, not '$*'."
  [[ $undistinguishing != *" $1 "* ]] || die "--try: $1 tells no models apart, so there is nothing to rank; seeds are for --seeds."
  for combination in "${combinations[@]}"; do
    for value in "${@:2}"; do combined+=("$combination $(printf '%q %q' "$1" "$value")"); done
  done
  combinations=("${combined[@]}")
}

combinations=('') recipe='' subset='valid' scores='validation' # not where evaluate.sh puts scores by itself
while (($#)); do
  case $1 in
    --try)
      tried=()
      while (($# > 1)) && [[ $2 != --* || ${#tried[@]} == 0 ]]; do
        tried+=("$2")
        shift
      done
      try "${tried[@]}"
      ;;
    --seeds | --jobs | --devices | --data | --out)
      (($# > 1)) || die "$1 needs a value."
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --help | -h) usage && exit ;;
    --) flags_of_all=("${@:2}") && break ;;
    -*) die "there is no option $1: see --help; flags of fairseq-train go behind --." ;;
    *)
      [[ ! $recipe ]] || die "name one recipe, not $recipe and $1: see --help."
      recipe=$1
      ;;
  esac
  shift
done
[[ $recipe ]] || die "name a recipe, DATASET/MODEL, which bash scripts/train.sh --help lists."
[[ ${combinations[0]} ]] || die "say what to try, such as --try --lr 5e-4 1e-3: see --help."
recipe=$(find_recipe "$recipe")
find_data "$recipe"
open_jobs "$repository/runs/sweep/$(name_of "$recipe")"
for combination in "${combinations[@]}"; do
  eval "words=($combination)"
  for seed in ${seeds//,/ }; do
    add_job "$(as_folder "${words[*]#--}")/seed-$seed" "$recipe" \
      "$recipe" "${words[@]}" "${flags_of_all[@]}" --seed "$seed"
  done
done
run_jobs
mapfile -t evaluations < <(done_jobs)
((${#evaluations[@]} == 0)) || ours experiments.runs.sweep "${evaluations[@]}"
report_failures
