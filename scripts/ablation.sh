#!/usr/bin/env bash
# Trains and evaluates the eight models of the papers' ablation; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/jobs.sh
source "$repository/scripts/jobs.sh"
seeds=1,2,3

usage() {
  cat <<USAGE
usage: bash scripts/ablation.sh [options] DATA_BIN [-- flags of fairseq-train for all]

Trains the eight models of the papers' ablation as train.sh does: the baseline, EA-Transformer-Lite, that without the
convolution of encoder, decoder or encoder-decoder attention, without skip connection, with kernels of 1x1 and 5x5. It
evaluates each as the recipe says and tells how to make the table. Stopped at any moment, the same command goes on; what is
done is not done again. What fails is told at the end; the rest goes on meanwhile.

  --recipe NAME       recipe of the full model (default: DATASET/ea_transformer_lite for data/DATASET/data-bin)
  --baseline-recipe NAME  recipe of the baseline (default: the same without ea_)
$(jobs_usage)
  --encoder           of a model without decoder: the rows that are about one are left out
  --out DIR           folder for all of it (default: runs/ablation/RECIPE)
  --help              show this text

example:
  bash scripts/ablation.sh --devices 0,1,2,3 data/iwslt14-deen/data-bin
  bash scripts/ablation.sh --encoder --recipe handwriting/ea_dc_transformer_series \\
    --baseline-recipe handwriting/transformer_series data/handwriting/data-bin
USAGE
}

recipe='' baseline_recipe='' encoder=''
while (($#)); do
  case $1 in
    --recipe | --baseline-recipe | --seeds | --jobs | --devices | --out)
      (($# > 1)) || die "$1 needs a value."
      option=${1#--}
      printf -v "${option//-/_}" '%s' "$2"
      shift
      ;;
    --encoder) encoder=yes ;;
    --help | -h) usage && exit ;;
    --) flags_of_all=("${@:2}") && break ;;
    -*) die "there is no option $1: see --help; flags of fairseq-train go behind --." ;;
    *)
      [[ ! $data ]] || die "name one folder of data, not $data and $1: see --help."
      data=$1
      ;;
  esac
  shift
done
[[ $data ]] || die "name the folder of the binarised data: see --help for an example."
[[ -d $data ]] || die "there is no folder $data: make it with a script of data-prep."
data=$(cd "$data" && pwd)
check_path "$data"
: "${recipe:=$(basename "$(dirname "$data")")/ea_transformer_lite}"
full=$(find_recipe "$recipe")
baseline=$(find_recipe "${baseline_recipe:-${recipe/ea_transformer/transformer}}")
[[ $full != "$baseline" ]] || die "--recipe and --baseline-recipe are both $full: name a recipe for each."
open_jobs "$repository/runs/ablation/$(name_of "$full")"

# row LABEL RECIPE FLAGS...: adds a row of the table.
row() {
  local seed
  for seed in ${seeds//,/ }; do
    add_job "$(as_folder "$1")/seed-$seed" "$2" --model "$1" "${@:2}" "${flags_of_all[@]}" --seed "$seed"
  done
}

row "$(basename "$baseline" .recipe)" "$baseline"
row "$(basename "$full" .recipe)" "$full"
while IFS=$'\t' read -r label flags; do
  [[ ! $encoder || $flags != *-@(decoder|cross)-* ]] || continue
  read -ra words <<<"$flags"
  row "$label" "$full" "${words[@]}"
done < <(tail -n +2 "$recipes/ablation.tsv")
run_jobs
say "the table: python ${repository@Q}/scripts/report.py ${OUT_DIR@Q}/*/*/evaluation"
report_failures
