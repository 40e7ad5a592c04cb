#!/usr/bin/env bash
# Learns from binarised data which target words may translate a sentence; see --help.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

usage() {
  cat <<'USAGE'
usage: bash data-prep/make-shortlist.sh [options] DATA_BIN FILE

Learns from the training set in DATA_BIN which target words translate which source words (IBM's model 1), and writes FILE
for --shortlist of translate.sh, fairseq-generate and fairseq-interactive: models then choose among the translations of a
batch's source words and the most frequent words alone. FILE is text: a source word, a tab, its translations.

  --words N     translations of a source word (default: 50)
  --frequent N  of the most frequent target words, which every sentence may have (default: 200)
  --pairs N     sentence pairs to learn from; 100,000 take half a gigabyte of memory (default: 100000)
  --help        show this text

example:
  bash data-prep/make-shortlist.sh data/multi30k-deen/data-bin data/multi30k-deen/shortlist.tsv
USAGE
}

words=50 frequent=200 pairs=100000 files=()
while (($#)); do
  case $1 in
    --help | -h) usage && exit ;;
    --words | --frequent | --pairs)
      (($# > 1)) || die "$1 needs a value."
      whole_number "$1" "$2"
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --*) die "there is no option $1: see --help for those there are." ;;
    *) files+=("$1") ;;
  esac
  shift
done
((${#files[@]} == 2)) || die "give a folder of binarised data and a file to write: see --help for an example."
check_path "${files[0]}"

find_python
ours data.learn_shortlist --words "$words" --frequent "$frequent" \
  --pairs "$pairs" -- "${files[@]}"
