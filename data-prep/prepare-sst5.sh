#!/usr/bin/env bash
# The Stanford Sentiment Treebank with five classes, from its files to binarised fairseq data; see --help.
set -euo pipefail
# shellcheck source=data-prep/pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/pipeline.sh"
# shellcheck source=data-prep/sentences.sh
source "$repository/data-prep/sentences.sh"

usage() {
  cat <<USAGE
usage: bash data-prep/prepare-sst5.sh [options] OUT_DIR

Downloads the sentences of the Stanford Sentiment Treebank (1.2 MB), from 0, very negative, to 4, very positive, and turns
them into data for fairseq's sentence_prediction, OUT_DIR/data-bin/{input0,label}: the words that its authors split, in
lower case, those seen twice in training; train 8,544, valid 1,101 and test 2,210. Stopped at any moment, the same command
goes on.

  --vocabulary DIR       BERT's words: WordPiece with vocab.txt and dict.txt, which import_bert.py wrote into DIR
$(sentence_usage)

example:
  bash data-prep/prepare-sst5.sh data/sst5
USAGE
}

task=sst-5 tokenizer=none subword=none threshold=2 normalized=''
values+='--vocabulary '
splits=() classes=(0 1 2 3 4)
parse_sentence_options "$@"
if [[ $tsv ]]; then
  from_tables "$tsv" 1
else
  languages=(input0)
  from_table train sst-5 sst-5-train
  from_table valid sst-5 sst-5-dev
  from_table test sst-5 sst-5-test
fi
expect 8544 1101 2210
prepare
