#!/usr/bin/env bash
# Turns a folder of train|valid|test.{src,tgt} text into binarised fairseq data; see --help.
set -euo pipefail
# shellcheck source=data-prep/pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/pipeline.sh"

usage() {
  cat <<USAGE
usage: bash data-prep/prepare-corpus.sh [options] CORPUS_DIR OUT_DIR

Turns the sentence pairs train|valid|test.{xx,yy} (plain or .gz) in CORPUS_DIR into fairseq data in OUT_DIR/data-bin,
with the subword model, preparation.json and manifest.json beside the data. A second run goes on where the first stopped.

  --source-lang xx       language of the source, the suffix of its files (required)
  --target-lang yy       language of the target, the suffix of its files (required)
  --tokenizer NAME       moses, or none for text that is already tokenized (default: moses)
  --no-normalize         leave punctuation as it is; by default it is normalised as Moses does
  --dash-splits          split words at hyphens, as in "mother @-@ in @-@ law"
  --lowercase            lower-case both languages
$(common_usage)

example:
  bash data-prep/prepare-corpus.sh --source-lang de --target-lang en --lowercase --merges 6000 \\
    --joined-dictionary data/multi30k data/multi30k-prepared
USAGE
}

switches+='--no-normalize --dash-splits --lowercase '
values+='--source-lang --target-lang --tokenizer '
no_normalize=''
parse_options "$@"
((${#folders[@]} == 2)) || die "give two folders, CORPUS_DIR and OUT_DIR, not ${#folders[@]}: see --help for an example."
[[ ! $no_normalize ]] || normalized=''
OUT_DIR=${folders[1]}
check_out_dir
open_tools
from_corpus "${folders[0]}"
prepare
