#!/usr/bin/env bash
# Takes one language of prepared sentence pairs as text for --task masked_lm; see --help.
set -euo pipefail
shopt -s nullglob

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

usage() {
  cat <<'USAGE'
usage: bash data-prep/prepare-masked-lm.sh --language xx PREPARED_DIR OUT_DIR

Copies one language of the sentence pairs in PREPARED_DIR/data-bin, which another prepare-*.sh has made, to
OUT_DIR/data-bin, in the names that fairseq's masked_lm reads: train, valid and test with one dictionary, how words were
cut, and manifest.json.

  --language xx  language to take (required)
  --help         show this text

example:
  bash data-prep/prepare-masked-lm.sh --language en data/de-en-mix data/masked-lm
USAGE
}

language='' folders=()
while (($#)); do
  case $1 in
    --help | -h) usage && exit ;;
    --language)
      (($# > 1)) || die "$1 needs a value."
      language=$2
      shift
      ;;
    -*) die "there is no option $1: see --help." ;;
    *) folders+=("$1") ;;
  esac
  shift
done
((${#folders[@]} == 2)) || die "give two folders, PREPARED_DIR and OUT_DIR, not ${#folders[@]}: see --help for an example."
[[ $language =~ ^[A-Za-z0-9_]+$ ]] || die "--language needs a language of letters and digits, such as en, not '$language'."
OUT_DIR=${folders[1]}
check_out_dir
[[ ! ${folders[0]} -ef $OUT_DIR ]] || die "$OUT_DIR has the sentence pairs themselves: give another folder for the output."
data=${folders[0]}/data-bin
[[ -d $data ]] || die "there is no folder $data: make it with another data-prep/prepare-*.sh."
files=()
for split in train valid test; do
  for kind in bin idx; do files+=("$data/$split".*."$language.$kind"); done
done
[[ -f $data/dict.$language.txt && ${#files[@]} == 6 ]] ||
  die "$data has no train, valid and test of $language: name one of its two languages with --language."

find_python
open_out_dir
made_of=("$data/dict.$language.txt" "$data"/{preparation,manifest}.json "${files[@]}") # those of JSON if they are there
stage data-bin "$(cat "${made_of[@]}" 2>/dev/null | sha256sum) with its preparation and manifest" \
  ours data.take_language --language "$language" --data "$data" "${files[@]}"
say "all of this is in $OUT_DIR/data-bin"
