#!/usr/bin/env bash
# A task of GLUE, or one's own, from tables of labelled sentences to binarised fairseq data; see --help.
set -euo pipefail
# shellcheck source=data-prep/pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/pipeline.sh"
# shellcheck source=data-prep/sentences.sh
source "$repository/data-prep/sentences.sh"

usage() {
  cat <<USAGE
usage: bash data-prep/prepare-glue.sh [options] --task NAME OUT_DIR

Downloads a task of GLUE and turns it into data for fairseq's sentence_prediction, OUT_DIR/data-bin/{input0,input1,label}.
What GLUE calls dev is valid; test is there where its labels are known (MRPC, STS-B). Stopped at any moment, the same
command goes on. Tables of your own are a task of your own: the classes are the labels of train.tsv.

  --task NAME            cola, sst-2, mrpc, rte, wnli, sts-b or, with --tsv, any other name
  --vocabulary DIR       BERT's words: WordPiece with vocab.txt and dict.txt, which import_bert.py wrote into DIR
  --cased                keep case and accents, for a BERT that is cased
  --regression           labels are scores, not classes (sts-b: they are, and are divided by 5)
$(sentence_usage)

example:
  bash data-prep/prepare-glue.sh --task cola --vocabulary runs/minilm data/glue-cola
  bash data-prep/prepare-glue.sh --task reviews --tsv ~/reviews --vocabulary runs/minilm data/reviews
USAGE
}

values+='--task --vocabulary '
switches+='--cased --regression '
splits=()
parse_sentence_options "$@"

# glue SENTENCES TRAIN VALID TEST FORM_OF_TEST OTHERS CLASS...: takes a task of GLUE with so many sentences and examples.
# OTHERS is the archive whose examples GLUE left out of the training file.
glue() {
  classes=("${@:7}")
  if [[ $tsv ]]; then
    from_tables "$tsv" "$1"
  else
    languages=("${languages[@]:0:$1}")
    from_table train "$task" "glue-$task-train" ${6:+"$6"}
    from_table valid "$task" "glue-$task-dev"
    [[ ! $5 ]] || from_table test "$5" "glue-$task-test"
  fi
  expect "${@:2:3}"
}

[[ $task =~ ^[A-Za-z][A-Za-z0-9._-]{0,63}$ ]] || die "--task needs cola, sst-2, mrpc, rte, wnli, sts-b or a name of letters, digits, '.', '_' and '-', not '$task'."
[[ ! $regression || ! $task =~ ^(cola|sst-2|mrpc|rte|wnli)$ ]] || die "$task has classes: leave --regression out."
case $task in
  cola) glue 1 8551 1043 1063 '' '' 0 1 ;;
  sst-2) glue 1 67349 872 1821 '' '' 0 1 ;;
  mrpc) glue 2 3668 408 1725 mrpc glue-mrpc-dev 0 1 ;;
  rte) glue 2 2490 277 3000 '' '' entailment not_entailment ;;
  wnli) glue 2 635 71 146 '' '' 0 1 ;;
  sts-b)
    regression=yes largest=5
    glue 2 5749 1500 1379 sts-b-test ''
    ;;
  *)
    [[ $tsv ]] || die "$task is none of cola, sst-2, mrpc, rte, wnli and sts-b: give --tsv, the folder of its tables."
    from_tables "$tsv"
    ;;
esac
prepare
