#!/usr/bin/env bash
# Trains a model, an EA-Transformer unless told, and its baseline, and shows what they translate; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"
# shellcheck source=scripts/recipe.sh
source "$repository/scripts/recipe.sh"

usage() {
  cat <<'USAGE'
usage: bash scripts/quickstart.sh [options]

Makes the Python environment .venv, prepares a corpus, trains ea_transformer_lite, or the model of --model, and its
baseline transformer_lite alike on it, translates its test set with both, prints their BLEU, parameters, FLOPs, speed and
ten translations, and writes a page with tables and learning curves. Without --corpus it unpacks a small German-English
corpus of its own: about seven minutes on two CPU cores, after the installation. Run again, it goes on where it stopped,
trains no baseline a second time, and prints the report again when all is done. The learning rate falls to zero at the
last update, so another number of updates is another training.

  --model NAME         model beside the baseline, a recipe of ea_fairseq/experiments/recipes/models (default: ea_transformer_lite)
  --corpus DIR         folder with train|valid|test.{xx,yy}, plain or .gz: raw text, one sentence a line
  --source-lang xx     language of the source, the suffix of its files (default: de)
  --target-lang yy     language of the target, the suffix of its files (default: en)
  --merges N           BPE merges (default: 5000; for --corpus 8000)
  --max-update N       updates of each training (default: 1450; for --corpus 20000)
  --max-tokens N       target tokens in a batch (default: 900; for --corpus 4096)
  --seed N             seed of both trainings (default: 1)
  --out DIR            folder for everything this writes (default: runs/quickstart; for --corpus runs/NAME-xx-yy; with a
                       --seed other than 1, -seed-N is added)
  --help               show this text

example:
  bash scripts/quickstart.sh --corpus data/multi30k --source-lang de --target-lang en --max-update 4000
USAGE
}

model=ea_transformer_lite corpus='' source_lang=de target_lang=en merges='' max_update='' max_tokens='' seed=1 out=''
while (($#)); do
  case $1 in
    --model | --corpus | --source-lang | --target-lang | --merges | --max-update | --max-tokens | --seed | --out)
      (($# > 1)) || die "$1 needs a value."
      option=${1#--}
      printf -v "${option//-/_}" '%s' "$2"
      shift
      ;;
    --help | -h) usage && exit ;;
    *) die "there is no option $1: see --help for those there are." ;;
  esac
  shift
done
models=$(list_recipes | tr ' ' '\n' | sed -n 's|^quickstart/||p' | grep -vx transformer_lite)
grep -qxF -- "$model" <<<"$models" || die "--model: there is no $model to train beside the baseline: give one of ${models//$'\n'/ }."
archs=(transformer_lite "$model")
whole_number --seed "$seed"
of_seed=''
((seed == 1)) || of_seed=-seed-$seed
if [[ $corpus ]]; then
  [[ -d $corpus ]] || die "--corpus: there is no folder $corpus."
  corpus=$(cd "$corpus" && pwd)
  data_name=$(basename "$corpus")
  : "${merges:=8000}" "${max_update:=20000}" "${max_tokens:=4096}"
  whole_number --max-update "$max_update"
  : "${out:=$repository/runs/$(basename "$corpus")-$source_lang-$target_lang$of_seed}"
  learning=(--warmup-updates $((max_update / 10 + 1)) --dropout 0.2 --save-interval-updates 500 --eval-bleu-args '{"beam": 5, "max_len_a": 1.2, "max_len_b": 10}')
else
  [[ $source_lang-$target_lang == de-en ]] || die "the corpus of the quick start is German-English: use --corpus for other languages."
  : "${merges:=5000}" "${max_update:=1450}" "${max_tokens:=900}"
  : "${out:=$repository/runs/quickstart$of_seed}"
  data_name=embedded-corpus
  learning=() # as in the recipes
fi
whole_number --merges "$merges"
whole_number --max-update "$max_update"
whole_number --max-tokens "$max_tokens"
OUT_DIR=$out
data_bin=$OUT_DIR/data/$data_name/data-bin

check_out_dir
check_path "$data_bin"
enter_environment
find_python
open_out_dir

# settings_of ARCH: what a training depends on beside its data.
settings_of() {
  printf '%s\n' "$(recipe_text "quickstart/$1" | cksum) ${learning[*]} $max_tokens $max_update $seed"
}

# has_checkpoints ARCH: whether there is something that was trained.
has_checkpoints() {
  local checkpoint
  for checkpoint in "$OUT_DIR/$1"/checkpoint*.pt; do
    [[ ! -e $checkpoint ]] || return 0
  done
  return 1
}

# refuse ARCH: dies because a training is not the one that is asked for.
refuse() {
  die "$OUT_DIR/$1 is a training with other settings, on other data or by another version: give another --out, or remove that folder."
}

# Before anything is made anew, which trainings that are there may depend on:
trained=()
for arch in "${archs[@]}"; do
  has_checkpoints "$arch" || continue
  [[ -f $OUT_DIR/.stages/$arch && $(<"$OUT_DIR/.stages/$arch") == *" $(settings_of "$arch")" ]] || refuse "$arch"
  trained+=("$arch")
done
if [[ ! $corpus ]]; then
  corpus=$OUT_DIR/corpus
  corpus_settings=$(cksum <"$repository/ea_fairseq/data/embedded_corpus.py")
  ((${#trained[@]} == 0)) || ! is_other corpus "$corpus_settings" || refuse "${trained[0]}"
  stage corpus "$corpus_settings" ours data.embedded_corpus --out
fi
prepare=(bash "$repository/data-prep/prepare-corpus.sh" --source-lang "$source_lang" --target-lang "$target_lang"
  --merges "$merges" --joined-dictionary "$corpus" "$OUT_DIR/data/$data_name")
if ((${#trained[@]})); then
  plan=$("${prepare[@]}" --dry-run 9>&-)
  [[ ! $plan =~ data-bin\ [^$'\n']*'in place of other' ]] || refuse "${trained[0]}"
fi
"${prepare[@]}" 9>&-

# train ARCH: becomes the training of ARCH, which goes on from its last checkpoint and does not outlive this script.
train() {
  local tie=()
  ! command -v setpriv >/dev/null || tie=(setpriv --pdeathsig KILL)
  export OMP_NUM_THREADS=$threads
  exec ${tie[@]+"${tie[@]}"} bash "$repository/scripts/train.sh" --data "$data_bin" --out "$OUT_DIR/$1" --model "$1" \
    "quickstart/$1" ${learning[@]+"${learning[@]}"} --max-tokens "$max_tokens" --max-update "$max_update" \
    --total-num-update "$max_update" --seed "$seed" 9>&- >"$OUT_DIR/logs/$1.out" 2>"$OUT_DIR/logs/$1.err"
}

cores=$(getconf _NPROCESSORS_ONLN)
threads=$(((cores + 1) / ${#archs[@]}))
trainings=()
for arch in "${archs[@]}"; do
  settings="$(<"$OUT_DIR/data/$data_name/.stages/data-bin") $(settings_of "$arch")"
  if ! is_made "$arch" "$settings"; then
    ! has_checkpoints "$arch" || refuse "$arch"
    rm -rf "${OUT_DIR:?}/$arch"
    mkdir "$OUT_DIR/$arch"
    stamp "$arch" "$settings"
  fi
done
say "training ${archs[0]} and ${archs[1]}; fairseq's logs are $OUT_DIR/*/train.log"
exec 8> >(ours experiments.runs.progress --max-update "$max_update" "${archs[@]/#/$OUT_DIR/}" 9>&-)
progress=$!
for arch in "${archs[@]}"; do
  train "$arch" &
  trainings+=("$!:$arch")
done
exec 8>&- # so that the trainings alone hold what the progress waits for
for training in "${trainings[@]}"; do
  arch=${training#*:}
  wait "${training%%:*}" && continue
  kill "$progress"
  die "training $arch failed ($(tail -n 1 "$OUT_DIR/logs/$arch.err")): see $OUT_DIR/logs/$arch.err."
done
wait "$progress"

reference=$corpus/test.$target_lang
[[ -f $reference ]] || reference+=.gz
for arch in "${archs[@]}"; do
  say "translating the test set with $arch"
  bash "$repository/scripts/evaluate.sh" --reference "$reference" "$data_bin" "$OUT_DIR/$arch" 9>&- >"$OUT_DIR/logs/$arch.scores" ||
    die "evaluating $arch failed: see $OUT_DIR/logs/$arch.scores."
done
evaluations=("${archs[@]/%//evaluation}")
python "$repository/scripts/report.py" --out "$OUT_DIR/report" --score BLEU --title "Quick start: $source_lang to $target_lang" \
  "${evaluations[@]/#/$OUT_DIR/}" >"$OUT_DIR/logs/report.log"
ours experiments.reports.summary --corpus "$corpus" --source-lang "$source_lang" --target-lang "$target_lang" "${archs[@]/#/$OUT_DIR/}"
say "tables and learning curves are in $OUT_DIR/report/report.html, and all else in $OUT_DIR"
