#!/usr/bin/env bash
# Turns a folder of train|valid|test.{src,tgt} text into binarised fairseq data; see --help.
set -euo pipefail
OUT_DIR=''

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
steps=$repository/data-prep/corpus

usage() {
  cat <<'USAGE'
usage: bash data-prep/prepare-corpus.sh [options] CORPUS_DIR OUT_DIR

Turns the sentence pairs train|valid|test.{xx,yy} (plain or .gz) in CORPUS_DIR into fairseq data in OUT_DIR/data-bin,
with the subword model and preparation.json beside the data. A second run goes on where the first stopped.

  --source-lang xx       language of the source, the suffix of its files (required)
  --target-lang yy       language of the target, the suffix of its files (required)
  --tokenizer NAME       moses, or none for text that is already tokenized (default: moses)
  --lowercase            lower-case both languages
  --subword NAME         bpe, sentencepiece or none (default: bpe)
  --separate-subword     learn one subword model for each language (default: one for both)
  --merges N             BPE merges (default: 10000)
  --vocab-size N         sentencepiece vocabulary (default: 8000)
  --joined-dictionary    one dictionary for both languages, as --share-all-embeddings needs
  --max-length N         drop training pairs with a side of more than N tokens (default: 175)
  --ratio R              drop training pairs where one side is over R times as long as the other (default: 1.5)
  --workers N            processes to work with (default: the number of cores)
  --help                 show this text

example:
  bash data-prep/prepare-corpus.sh --source-lang de --target-lang en --lowercase --merges 6000 \
    --joined-dictionary data/multi30k data/multi30k-prepared
USAGE
}

source_lang='' target_lang='' tokenizer=moses lowercase='' subword=bpe separate='' joined=''
merges=10000 vocab_size=8000 max_length=175 ratio=1.5
workers=$(getconf _NPROCESSORS_ONLN)
folders=()

while (($#)); do
  case $1 in
    --source-lang | --target-lang | --tokenizer | --subword | --merges | --vocab-size | --max-length | --ratio | --workers)
      (($# > 1)) || die "$1 needs a value."
      option=${1#--}
      printf -v "${option//-/_}" '%s' "$2"
      shift
      ;;
    --lowercase) lowercase=--lowercase ;;
    --separate-subword) separate=yes ;;
    --joined-dictionary) joined=--joined-dictionary ;;
    --help | -h) usage && exit ;;
    -*) die "there is no option $1: see --help for those there are." ;;
    *) folders+=("$1") ;;
  esac
  shift
done

((${#folders[@]} == 2)) || die "give two folders, CORPUS_DIR and OUT_DIR, not ${#folders[@]}: see --help for an example."
[[ ${folders[0]} && ${folders[1]} ]] || die "the name of a folder is empty: see --help for an example."
corpus=${folders[0]}
OUT_DIR=${folders[1]}
[[ $source_lang =~ ^[A-Za-z0-9_]+$ ]] || die "--source-lang needs a language, the suffix of its files (such as de), not '$source_lang'."
[[ $target_lang =~ ^[A-Za-z0-9_]+$ ]] || die "--target-lang needs a language, the suffix of its files (such as en), not '$target_lang'."
[[ $source_lang != "$target_lang" ]] || die "--source-lang and --target-lang are both $source_lang: they must differ."
[[ $tokenizer == moses || $tokenizer == none ]] || die "--tokenizer is moses or none, not '$tokenizer'."
[[ $subword =~ ^(bpe|sentencepiece|none)$ ]] || die "--subword is bpe, sentencepiece or none, not '$subword'."
whole_number --merges "$merges"
whole_number --vocab-size "$vocab_size"
whole_number --max-length "$max_length"
whole_number --workers "$workers"
[[ $ratio =~ ^[1-9][0-9]*(\.[0-9]+)?$ ]] || die "--ratio needs a number of at least 1, not '$ratio'."

check_out_dir

find_python
tools=(fairseq)
[[ $tokenizer == moses ]] && tools+=(sacremoses)
[[ $subword == bpe ]] && tools+=(subword-nmt)
[[ $subword == sentencepiece ]] && tools+=(sentencepiece)
versions=$("$python" "$steps/tool_versions.py" "${tools[@]}")
declare -A version
while read -r tool number; do version[$tool]=$number; done <<<"$versions"

say "checking $corpus"
languages=("$source_lang" "$target_lang")
checked=$("$python" "$steps/check_corpus.py" "$corpus" "${languages[@]}")
open_out_dir

# For each split and language: the file that holds its text, as far as it is made, and the settings it was made with.
declare -A text made
while read -r name file checksum; do
  language=${name##*.}
  text[$name]=$OUT_DIR/tokenized/$name
  made[$name]="text $checksum, tokenizer $tokenizer ${version[sacremoses]-} for $language ${lowercase#--}"
  stage "tokenized/$name" "${made[$name]}" "$python" "$steps/tokenize_text.py" --tokenizer "$tokenizer" \
    --language "$language" $lowercase --workers "$workers" "$corpus/$file"
done <<<"$checked"

source=train.$source_lang target=train.$target_lang
cleaned="$source: ${made[$source]}"$'\n'"$target: ${made[$target]}"$'\n'"at most $max_length tokens, ratio $ratio"
stage cleaned "$cleaned" "$python" "$steps/clean_pairs.py" --max-length "$max_length" --ratio "$ratio" \
  "${text[$source]}" "${text[$target]}"
for name in "$source" "$target"; do
  text[$name]=$OUT_DIR/cleaned/$name
  made[$name]=$cleaned
done

case $subword in
  bpe) size=$merges suffix=codes tool=subword-nmt ;;
  sentencepiece) size=$vocab_size suffix=model tool=sentencepiece ;;
  none) size=null ;;
esac
models=()

# learn_and_apply MODEL LANGUAGE...: learns a subword model from the training text of the languages and applies it.
learn_and_apply() {
  local model=$1 settings inputs=() language split name
  shift
  for language in "$@"; do inputs+=("${text[train.$language]}"); done
  settings="$cleaned"$'\n'"$tool ${version[$tool]}, size $size, from $*"
  stage "$model" "$settings" "$python" "$steps/learn_subword.py" --kind "$subword" --size "$size" "${inputs[@]}"
  models+=("$OUT_DIR/$model")
  for split in train valid test; do
    for language in "$@"; do
      name=$split.$language
      made[$name]+=$'\n'$settings
      stage "subword/$name" "${made[$name]}" "$python" "$steps/apply_subword.py" --kind "$subword" \
        --model "$OUT_DIR/$model" --workers "$workers" "${text[$name]}"
      text[$name]=$OUT_DIR/subword/$name
    done
  done
}

if [[ $subword != none && $separate ]]; then
  for language in "${languages[@]}"; do learn_and_apply "$subword.$language.$suffix" "$language"; done
elif [[ $subword != none ]]; then
  learn_and_apply "$subword.$suffix" "${languages[@]}"
fi

settings="fairseq ${version[fairseq]}, from $source_lang to $target_lang ${joined#--}"
prefixes=()
for split in train valid test; do
  for language in "${languages[@]}"; do settings+=$'\n'"$split.$language: ${made[$split.$language]}"; done
  prefixes+=("--${split}pref" "${text[$split.$source_lang]%.*}")
done
description=$(printf '{"tokenizer": "%s", "lowercase": %s, "subword": "%s", "subword_size": %s, "max_length": %s, "ratio": %s}' \
  "$tokenizer" "$([[ $lowercase ]] && echo true || echo false)" "$subword" "$size" "$max_length" "$ratio")
stage data-bin "$settings" "$python" "$steps/binarize.py" --source-lang "$source_lang" --target-lang "$target_lang" \
  "${prefixes[@]}" $joined --workers "$workers" --settings "$description" --versions "$versions" \
  --cleaned "$OUT_DIR/cleaned/counts.json" --log "$OUT_DIR/logs/fairseq-preprocess.log" --models "${models[@]}" --

say "done: $OUT_DIR/data-bin"
