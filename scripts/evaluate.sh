#!/usr/bin/env bash
# Translates or predicts a test set with a trained model and scores what comes out; see --help.
set -euo pipefail
shopt -s extglob globstar

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"
# shellcheck source=scripts/recipe.sh
source "$repository/scripts/recipe.sh"

usage() {
  cat <<'USAGE'
usage: bash scripts/evaluate.sh [options] DATA_BIN CHECKPOINT_DIR

Averages checkpoints, lets the model do a subset of the data, and scores what it makes of it: of translations tokenized
BLEU as multi-bleu.perl counts it, and of raw text BLEU, chrF and TER with sacreBLEU's signatures; of sentences with labels
what the criterion reports of a training (accuracy, Matthews, F1, Pearson, Spearman); of masked words the perplexity, the
same words for all models. Prints a table and writes results.json, translations and references or predictions.tsv, and the
averaged model.pt into one folder. Stopped at any moment, the same command goes on; what was made with the same options is
not made again.

  --average N        take the average of the last N epochs, or of the last N saved by updates where no epoch was saved
  --average-best N   take the average of the N best checkpoints by validation
  --checkpoint NAME  take this checkpoint (default: checkpoint_best.pt, or checkpoint_last.pt where there is none)
  --subset NAME      test or valid (default: test)
  --max-tokens N     source tokens in a batch (default: 4096)
  --beam N           of translations, width of the beam (default: 5)
  --lenpen F         of translations, length penalty, higher for longer ones (default: 1)
  --compound-split   of translations, count BLEU with words split at their hyphens, too; for WMT'14 English-German
  --reference FILE   of translations, raw references (default: those of the data, detokenized)
  --user-dir DIR     a user-dir of your own, where it brings the model's architecture
  --model LABEL      what tables call the model (default: what train.sh called it)
  --cpu              use the CPU even where there is a GPU
  --out DIR          folder of the results (default: CHECKPOINT_DIR/evaluation)
  --help             show this text

Where train.sh has left a recipe in CHECKPOINT_DIR, the options in its section [evaluate] are the defaults; --model,
--out and --reference are for the command alone. Sentence pairs without preparation.json are taken for Moses' tokens with
BPE.

example:
  bash scripts/evaluate.sh --average 5 data/multi30k-deen/data-bin runs/multi30k-deen/ea_transformer_lite/seed-1
  bash scripts/evaluate.sh data/glue-cola/data-bin runs/glue-cola/ea_bert_mini/seed-1
USAGE
}

of_recipe=' --average= --average-best= --checkpoint= --beam= --lenpen= --subset= --max-tokens= --compound-split --cpu '
beam='' lenpen='' subset=test max_tokens=4096 compound_split='' reference='' user_dir='' model='' cpu='' out='' selection=()
of_translations=(beam lenpen reference)

# parse OPTIONS...: sets the variables above and `folders`.
parse() {
  local name
  folders=()
  while (($#)); do
    case $1 in
      --help | -h) usage && exit ;;
      --cpu | --compound-split) name=${1#--} && printf -v "${name//-/_}" '%s' "$1" ;;
      --*)
        [[ $1 =~ ^--(average|average-best|checkpoint|beam|lenpen|subset|max-tokens|reference|user-dir|model|out)$ ]] ||
          die "there is no option $1: see --help for those there are."
        (($# > 1)) || die "$1 needs a value."
        case $1 in
          --average) whole_number "$1" "$2" && selection=(--last "$2") ;;
          --average-best) whole_number "$1" "$2" && selection=(--best "$2") ;;
          --checkpoint)
            [[ $2 =~ ^[^/-][^/]*$ ]] || die "--checkpoint needs the name of a file in CHECKPOINT_DIR, not '$2'."
            selection=("$2")
            ;;
          *) name=${1#--} && printf -v "${name//-/_}" '%s' "$2" ;;
        esac
        shift
        ;;
      *) folders+=("$1") ;;
    esac
    shift
  done
}

parse "$@"
((${#folders[@]} == 2)) || die "give two folders, DATA_BIN and CHECKPOINT_DIR, not ${#folders[@]}: see --help for an example."
[[ -d ${folders[1]} ]] || die "there is no folder ${folders[1]}: give the --save-dir of a training, CHECKPOINT_DIR."
folder=$(cd "${folders[1]}" && pwd)
flags=()
if [[ -e $folder/recipe || -L $folder/recipe ]]; then
  [[ -f $folder/recipe && ! -L $folder/recipe && $(stat -c %s "$folder/recipe") -lt 100000 ]] ||
    die "$folder/recipe is not the recipe of a training: put that there, or remove this."
  read_recipe "$folder/recipe" evaluate "$of_recipe"
fi
parse ${flags[@]+"${flags[@]}"} "$@"
[[ -d ${folders[0]} ]] || die "there is no folder ${folders[0]}: give that of the binarised data, DATA_BIN."
data=$(cd "${folders[0]}" && pwd)
check_path "$data"
if [[ ! $out ]]; then
  out=$folder/evaluation link=$(find "$out" -type l -print -quit 2>/dev/null) || true
  [[ ! $link ]] || die "$link is a link, and what is written to it would be elsewhere: name a folder with --out."
fi
OUT_DIR=$out
check_out_dir
whole_number --beam "${beam:-5}"
whole_number --max-tokens "$max_tokens"
[[ $subset =~ ^[A-Za-z0-9_]+$ ]] || die "--subset needs the name of a subset, such as test, not '$subset'."
[[ ${lenpen:-1} =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "--lenpen needs a number of at least 0, not '$lenpen'."
[[ ! $reference || -f $reference ]] || die "--reference: there is no file $reference."
[[ ! $reference ]] || reference=$(realpath "$reference")
[[ ! $user_dir || -d $user_dir ]] || die "--user-dir: there is no folder $user_dir."
[[ ! $user_dir ]] || user_dir=$(cd "$user_dir" && pwd)

# what is averaged: options and paths for average_checkpoints.py
shopt -s nullglob
case ${selection[0]:-} in
  --*)
    selection+=("$folder") checkpoints=("$folder"/checkpoint?(_+([0-9])_)+([0-9]).pt)
    [[ ${selection[0]} == --last && ${checkpoints[*]} ]] || checkpoints=("$folder"/checkpoint!(_released).pt)
    ;;
  '')
    checkpoints=("$folder"/checkpoint_@(best|last).pt)
    selection=("${checkpoints[@]:0:1}") checkpoints=("${selection[@]}")
    ;;
  *)
    selection=("$folder/${selection[0]}") checkpoints=("${selection[@]}")
    [[ -f ${selection[0]} ]] || die "--checkpoint: there is no ${selection[0]}."
    ;;
esac
((${#checkpoints[@]})) || die "$folder has no checkpoints: give the --save-dir of a training, CHECKPOINT_DIR."

find_programs
use_huge_pages
facts=$(ours experiments.runs.data_facts "$data" --run "$folder" --subset "$subset" ${compound_split:+"$compound_split"})
mapfile -t facts <<<"$facts"
task=${facts[0]} source_lang=${facts[3]-} target_lang=${facts[4]-} remove_bpe=${facts[5]-}
if [[ $task == translation ]]; then
  : "${beam:=5}" "${lenpen:=1}"
  made=generated make=generate written=(counts.tsv {translation,reference}{,.tok}.txt)
else
  for name in "${of_translations[@]}"; do
    [[ ! ${!name} ]] || die "--$name is for translations, and $data has data for --task $task."
  done
  made=predictions.tsv make=predict written=()
fi
open_out_dir
OUT_DIR=$(cd "$OUT_DIR" && pwd)

# generate FOLDER: translates the subset.
generate() {
  local log=$OUT_DIR/logs/generate.log status=0
  say "translating with a beam of $beam; the log is $log"
  "$(dirname "$python")/fairseq-generate" "$data" --source-lang "$source_lang" --target-lang "$target_lang" \
    --user-dir "${user_dir:-$repository/ea_fairseq}" --path "$OUT_DIR/model.pt" --gen-subset "$subset" --beam "$beam" \
    --lenpen "$lenpen" --max-tokens "$max_tokens" --required-batch-size-multiple 1 ${cpu:+"$cpu"} \
    ${remove_bpe:+--remove-bpe "$remove_bpe"} --results-path "$1" >"$log" 2>&1 || status=$?
  ((status < 1 || status > 128)) || die "translating failed ($(tail -n 1 "$log")): see the end of $log."
  return "$status"
}

# predict FILE: predicts the subset.
predict() {
  say "predicting $subset"
  ours experiments.scoring.predicting --subset "$subset" --max-tokens "$max_tokens" ${cpu:+"$cpu"} \
    ${user_dir:+--user-dir "$user_dir"} "$data" "$OUT_DIR/model.pt" "$1"
}

of_checkpoints="${selection[*]#"$folder"}"$'\n'$(cd "$folder" && stat -c '%n %s %.Y' -- "${checkpoints[@]#"$folder/"}")$'\n'${facts[*]}
stage model.pt "$of_checkpoints" \
  ours cli average "${selection[@]}" --data "$data" \
  ${user_dir:+--user-dir "$user_dir"} --output
of_search="$of_checkpoints"$'\n'"$subset $beam $lenpen $max_tokens $cpu $(cat "$repository"/ea_fairseq/**/*.py ${user_dir:+"$user_dir"/**/*.py} | cksum)"
stage "$made" "$of_search" "$make"
for name in results.json "${written[@]}"; do
  [[ -f $OUT_DIR/$name ]] || rm -f "$OUT_DIR/scores.txt"
done
printf -v command '%q ' bash scripts/evaluate.sh "${@#"$repository/"}"
of_scores="$of_search"$'\n'"$command $model $compound_split $reference $(
  cat "$repository"/ea_fairseq/experiments/{scoring/*,runs/training_log}.py \
    "$folder"/@(run.json|train.log) ${reference:+"$reference"} | cksum
)"
stage scores.txt "$of_scores" \
  ours experiments.scoring.evaluation --subset "$subset" --command "${command% }" \
  ${beam:+--beam "$beam" --lenpen "$lenpen"} \
  ${reference:+--reference "$reference"} ${model:+--model "$model"} ${compound_split:+"$compound_split"} \
  ${cpu:+"$cpu"} ${user_dir:+--user-dir "$user_dir"} "$data" "$folder" "$OUT_DIR"
echo
cat "$OUT_DIR/scores.txt"
say "all of this is in $OUT_DIR"
