# shellcheck shell=bash disable=SC2034,SC2154 # pipeline.sh sets and uses the variables
# What the prepare-*.sh of labelled sentences share, beside pipeline.sh, which they source before this.

recipe=(tokenize subword)
binarize=binarize_sentences
source_lang=input0 target_lang=input1 text_language=en # the sides, as fairseq calls them
labelled=yes
tsv='' threshold=1 task='' regression=''
classes=()  # in the order of their numbers; none: those of the training table
largest=''  # score of a regression
switch_settings=(lowercase)
value_settings=(tokenizer subword threshold)
switches=' --lowercase --compress --remove-intermediate --dry-run '
values=' --tsv --moses --subword --model-type --merges --vocab-size --threshold --subsample --seed --workers '

# sentence_usage: the options that these scripts have, with the defaults of this one.
sentence_usage() {
  cat <<USAGE
  --tsv DIR              take train.tsv, valid.tsv and, if it is there, test.tsv (plain or .gz) of DIR: one header line,
                         then lines of LABEL<TAB>SENTENCE or LABEL<TAB>SENTENCE<TAB>SENTENCE2
$(archive_usage)
  --lowercase            lower-case the text
  --threshold N          words or subwords that are seen less often are <unk> (default: $threshold)
$(common_usage | grep -E '^  --(moses|subword|merges|model-type|vocab-size|seed|workers|compress|remove|dry-run|help)')
  --subsample N          draw N training examples at random, for a trial
USAGE
}

# parse_sentence_options ARGUMENTS...: parses the options of such a script, and opens what it needs.
parse_sentence_options() {
  parse_dataset_options "$@"
  whole_number --threshold "$threshold"
  [[ ! $tsv || -d $tsv ]] || die "--tsv: there is no folder $tsv."
  [[ ! $tsv || ! $archives$mirror ]] || die "--tsv is text of your own: leave --archives and --mirror out."
  defaults=$(text_settings | grep -v '^subsample=') # all but what the number of examples depends on
}

# from_tables FOLDER [SENTENCES]: takes train, valid and, if it is there, test of a folder of tables; dies unless an
# example has so many sentences.
from_tables() {
  local checked split count bytes name checksum
  say "checking $1"
  checked=$(ours data.check_tables "$1")
  while read -r split count bytes name checksum; do
    ((count == ${2:-count})) || die "$1/$name has $count sentences an example, and $task has ${2-}."
    languages=("${languages[@]:0:count}")
    [[ $name != *.gz ]] || bytes=$((bytes * 3))
    plan_examples "$split" plain "$bytes" "$checksum" '' "$1/$name"
  done <<<"$checked"
}

# from_table SPLIT FORM ARCHIVE [OTHER]: takes a split from an archive, a table of that form, without the examples of
# OTHER.
from_table() {
  local archive needed=("${@:3}")
  for archive in "${needed[@]}"; do plan_download "$archive"; done
  needed=("${needed[@]/#/archives/}")
  plan_examples "$1" "$2" "${sizes[archives/$3]}" '' "${needed[*]}" "${needed[@]/#/"$OUT_DIR/"}"
}

# plan_examples SPLIT FORM BYTES SETTINGS NEEDS INPUT [OTHERS]: plans to read the examples of a split, without others.
plan_examples() {
  local options=(${7:+--without "$7"})
  if [[ $1 == train ]]; then
    train_bytes=$3
    [[ ! $subsample ]] || options+=(--sample "$subsample" --seed "$seed")
  fi
  plan "extracted/$1" "$3" "$2 ${languages[*]} ${options[*]//"$OUT_DIR/"/} $4" "$5" ours data.read_table \
    --form "$2" --sides "${languages[@]}" "${options[@]}" -- "$6"
  splits+=("$1")
  text[$1]=extracted/$1
}

# expect TRAIN VALID TEST: the numbers of examples that a known data set has.
expect() {
  local -A known=([train]=$1 [valid]=$2 [test]=$3)
  local split
  for split in "${splits[@]}"; do known_counts+=("$split=${known[$split]}"); done
}

plan_binarize_sentences() {
  local split settings words=(--threshold "$threshold") kind=() inputs=() needed=()
  mapfile -t settings < <(text_settings)
  for split in "${splits[@]}"; do
    inputs+=("--$split" "$OUT_DIR/${text[$split]}" "$OUT_DIR/extracted/$split")
    needed+=("extracted/$split")
  done
  [[ ! ${classes[*]} ]] || kind=(--classes "${classes[@]}")
  [[ ! $regression ]] || kind=(--regression ${largest:+--largest "$largest"})
  if [[ $vocabulary ]]; then
    plan_copy dict.txt "$vocabulary"
    words=(--dictionary "$OUT_DIR/dict.txt")
    needed+=(dict.txt)
  fi
  plan data-bin $((train_bytes * 80 / 100)) "${version[fairseq]} $task ${words[*]//"$OUT_DIR/"/} ${kind[*]}" \
    "$(made_with "${text[@]}" "${models[@]}" "${needed[@]}")" ours data.binarize_sentences \
    --sides "${languages[@]}" --workers "$workers" "${words[@]}" "${kind[@]}" "${inputs[@]}" --versions "$versions" \
    --settings "dataset=$script" "task=$task" "${settings[@]}" --models "${models[@]/#/$OUT_DIR/}" --
}
