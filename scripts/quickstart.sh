#!/usr/bin/env bash
# Trains an EA-Transformer and its baseline and shows what they translate; see --help.
set -euo pipefail
OUT_DIR=''

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

usage() {
  cat <<'USAGE'
usage: bash scripts/quickstart.sh [options]

Makes the Python environment .venv, prepares a corpus, trains ea_transformer_lite and its baseline transformer_lite
alike on it, translates its test set with both, and prints their BLEU, parameters, FLOPs, speed and ten translations.
Without --corpus it writes a small German-English corpus of its own, which takes about ten minutes on two CPU cores.
Run again, it goes on where it stopped, and prints the report again when all is done.

  --corpus DIR         folder with train|valid|test.{xx,yy}, plain or .gz: raw text, one sentence a line
  --source-lang xx     language of the source, the suffix of its files (default: de)
  --target-lang yy     language of the target, the suffix of its files (default: en)
  --merges N           BPE merges (default: 2000; for --corpus 8000)
  --max-update N       updates of each training (default: 900; for --corpus 20000)
  --max-tokens N       target tokens in a batch (default: 1024; for --corpus 4096)
  --out DIR            folder for everything this writes (default: runs/quickstart; for --corpus runs/NAME-xx-yy)
  --help               show this text

example:
  bash scripts/quickstart.sh --corpus data/multi30k --source-lang de --target-lang en --max-update 4000
USAGE
}

archs=(transformer_lite ea_transformer_lite)
corpus='' source_lang=de target_lang=en merges='' max_update='' max_tokens='' out=''
while (($#)); do
  case $1 in
    --corpus | --source-lang | --target-lang | --merges | --max-update | --max-tokens | --out)
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
if [[ $corpus ]]; then
  [[ -d $corpus ]] || die "--corpus: there is no folder $corpus."
  corpus=$(cd "$corpus" && pwd)
  : "${merges:=8000}" "${max_update:=20000}" "${max_tokens:=4096}"
  : "${out:=$repository/runs/$(basename "$corpus")-$source_lang-$target_lang}"
  learning=(--lr 1e-3 --warmup-updates 2000 --dropout 0.2)
else
  [[ $source_lang-$target_lang == de-en ]] || die "the corpus that this writes is German-English: use --corpus for other languages."
  : "${merges:=2000}" "${max_update:=900}" "${max_tokens:=1024}"
  : "${out:=$repository/runs/quickstart}"
  learning=(--lr 1.5e-3 --warmup-updates 400 --dropout 0)
fi
whole_number --merges "$merges"
whole_number --max-update "$max_update"
whole_number --max-tokens "$max_tokens"
OUT_DIR=$out

check_out_dir
enter_environment
use_huge_pages
open_out_dir

if [[ ! $corpus ]]; then
  corpus=$OUT_DIR/corpus
  stage corpus "$(cat "$repository"/data-prep/embedded_corpus.py "$repository"/data-prep/grammar/*.* | cksum)" \
    python "$repository/data-prep/embedded_corpus.py" --out
fi
data_bin=$OUT_DIR/prepared/data-bin
bash "$repository/data-prep/prepare-corpus.sh" --source-lang "$source_lang" --target-lang "$target_lang" \
  --merges "$merges" --joined-dictionary "$corpus" "$OUT_DIR/prepared" 9>&-

# train ARCH: becomes the training of ARCH, which goes on from its last checkpoint and does not outlive this script.
train() {
  local tie=()
  ! command -v setpriv >/dev/null || tie=(setpriv --pdeathsig KILL)
  export OMP_NUM_THREADS=$threads
  exec ${tie[@]+"${tie[@]}"} fairseq-train "$data_bin" --user-dir "$repository/ea_fairseq" --arch "$1" \
    --share-all-embeddings --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt "${learning[@]}" \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens "$max_tokens" \
    --max-update "$max_update" --seed 1 --num-workers 0 --save-dir "$OUT_DIR/$1" \
    --no-epoch-checkpoints --save-interval-updates 200 --keep-interval-updates 1 \
    --log-format simple --log-interval 50 2>"$OUT_DIR/$1/train.err"
}

cores=$(getconf _NPROCESSORS_ONLN)
threads=$(((cores + 1) / ${#archs[@]}))
recipe="$(<"$OUT_DIR/prepared/.stages/data-bin")"$'\n'"${learning[*]} --max-tokens $max_tokens"
trainings=()
for arch in "${archs[@]}"; do
  folder=$OUT_DIR/$arch
  if [[ ! -f $folder/recipe || $(<"$folder/recipe") != "$recipe" ]]; then
    rm -rf "$folder"
    mkdir "$folder"
    printf '%s\n' "$recipe" >"$folder/recipe"
  fi
  [[ ! -f $folder/trained || $(<"$folder/trained") != "$max_update" ]] || continue
  say "training $arch with $threads threads, all of its log in $folder/train.log"
  train "$arch" > >(tee -a "$folder/train.log" | sed -nuE "s/^.* \| INFO \| (train|valid|train_inner) \| /[$arch] \1 | /p") &
  trainings+=("$!:$arch")
done
for training in ${trainings[@]+"${trainings[@]}"}; do
  arch=${training#*:}
  wait "${training%%:*}" || die "training $arch failed: see the end of $OUT_DIR/$arch/train.err."
  printf '%s\n' "$max_update" >"$OUT_DIR/$arch/trained"
done

# translate ARCH FOLDER: translates the test set with a trained model. fairseq leaves out the last batch of a test set
# where its size is no multiple of 8, its default; with 1 it translates all.
translate() {
  local checkpoint=$OUT_DIR/$1/checkpoint_best.pt
  [[ -e $checkpoint ]] || checkpoint=$OUT_DIR/$1/checkpoint_last.pt
  fairseq-generate "$data_bin" --source-lang "$source_lang" --target-lang "$target_lang" \
    --user-dir "$repository/ea_fairseq" --path "$checkpoint" --beam 5 --required-batch-size-multiple 1 \
    --max-tokens 4096 --remove-bpe --tokenizer moses --results-path "$2" >"$OUT_DIR/$1/translate.log" 2>&1 ||
    die "translating with $1 failed: see the end of $OUT_DIR/$1/translate.log."
}

for arch in "${archs[@]}"; do
  stage "$arch/translation" "$recipe, $max_update updates" translate "$arch"
done
python "$repository/scripts/summarize.py" --corpus "$corpus" --data-bin "$data_bin" --source-lang "$source_lang" \
  --target-lang "$target_lang" "${archs[@]/#/$OUT_DIR/}"
say "all of this is in $OUT_DIR"
