# shellcheck shell=bash disable=SC2034,SC2154 # the variables are used by pipeline.sh; scripts set source_lang, target_lang
# The options that prepare-*.sh share.

# What the options set; a script changes these defaults before it calls parse_options.
tokenizer=moses moses='' dash_splits='' lowercase=''
subword=bpe separate_subword='' merges=10000 model_type=unigram vocab_size=8000 joined_dictionary=''
max_length=175 ratio=1.5
vocabulary='' cased='' # BERT's
subsample='' seed=1 source_lang='' target_lang=''
workers=$(getconf _NPROCESSORS_ONLN) compress='' remove_intermediate='' dry_run=''
archives='' mirror='' accepted=()
switch_settings=(lowercase dash_splits separate_subword joined_dictionary) # of these, those the text depends on
value_settings=(tokenizer subword max_length ratio)
switches=' --separate-subword --joined-dictionary --compress --remove-intermediate --dry-run '
values=' --moses --subword --model-type --merges --vocab-size --max-length --ratio --subsample --seed --workers '

# common_usage: the options that all scripts have, with the defaults of this one.
common_usage() {
  cat <<USAGE
  --moses DIR            tokenize with the scripts of Moses in DIR (default: sacremoses, its translation to Python)
  --subword NAME         bpe, sentencepiece or none (default: $subword)
  --separate-subword     learn one subword model for each language (default: one for both)
  --merges N             BPE merges (default: $merges)
  --model-type NAME      unigram or bpe, of sentencepiece (default: unigram)
  --vocab-size N         sentencepiece vocabulary (default: $vocab_size)
  --joined-dictionary    one dictionary for both languages, as --share-all-embeddings needs${joined_dictionary:+ (default)}
  --max-length N         drop training pairs with a side of more than N tokens (default: $max_length)
  --ratio R              drop training pairs where one side is over R times as long as the other (default: $ratio)
  --subsample N          draw N training pairs at random, for a trial
  --seed N               seed of the draw of --subsample (default: 1)
  --workers N            processes to work with; the result is the same for any N (default: the number of cores)
  --compress             gzip the training text between the steps
  --remove-intermediate  remove text as soon as no further step needs it
  --dry-run              print what there is to do, and the disk it needs, and do nothing
  --help                 show this text
USAGE
}

# archive_usage: the options of the scripts that download.
archive_usage() {
  cat <<'USAGE'
  --archives DIR         use the archives that are in DIR, and download the others only
  --mirror URL           download from this host, such as http://localhost:8000, instead of those known
  --accept NAME=SUM      trust an archive with this checksum, sha256:..., whatever the known one is
USAGE
}

# text_settings: the options that the text depends on, as NAME=VALUE.
text_settings() {
  local name
  for name in "${switch_settings[@]}"; do
    echo "$name=$([[ ${!name} ]] && echo true || echo false)"
  done
  echo "normalize=$([[ $normalized == *' train '* ]] && echo true || echo false)"
  for name in "${value_settings[@]}"; do echo "$name=${!name}"; done
  case $subword in
    bpe) echo "merges=$merges" ;;
    sentencepiece) printf '%s\n' "model_type=$model_type" "vocab_size=$vocab_size" ;;
  esac
  [[ ! $subsample ]] || printf '%s\n' "subsample=$subsample" "seed=$seed"
}

# parse_options ARGUMENTS...: sets the variable of each option in `switches` or `values`, and `folders`.
parse_options() {
  local name
  folders=()
  defaults=$(text_settings)
  while (($#)); do
    name=${1#--} name=${name//-/_}
    if [[ $1 == --help || $1 == -h ]]; then
      usage && exit
    elif [[ $switches == *" $1 "* ]]; then
      printf -v "$name" '%s' yes
    elif [[ $values == *" $1 "* ]]; then
      (($# > 1)) || die "$1 needs a value."
      printf -v "$name" '%s' "$2"
      [[ $1 != --accept ]] || accepted+=("$2")
      shift
    elif [[ $1 == -* ]]; then
      die "there is no option $1: see --help for those there are."
    elif [[ ! $1 ]]; then
      die "the name of a folder is empty: see --help for an example."
    else
      folders+=("$1")
    fi
    shift
  done
  check_options
}

check_options() {
  local choice
  [[ $source_lang =~ ^[A-Za-z0-9_]{1,64}$ ]] || die "--source-lang needs a language, the suffix of its files (such as de), not '$source_lang'."
  [[ $target_lang =~ ^[A-Za-z0-9_]{1,64}$ ]] || die "--target-lang needs a language, the suffix of its files (such as en), not '$target_lang'."
  [[ $source_lang != "$target_lang" ]] || die "--source-lang and --target-lang are both $source_lang: they must differ."
  languages=("$source_lang" "$target_lang")
  [[ $tokenizer == moses || $tokenizer == none ]] || die "--tokenizer is moses or none, not '$tokenizer'."
  [[ $subword =~ ^(bpe|sentencepiece|none)$ ]] || die "--subword is bpe, sentencepiece or none, not '$subword'."
  [[ $model_type =~ ^(unigram|bpe)$ ]] || die "--model-type is unigram or bpe, not '$model_type'."
  whole_number --merges "$merges"
  whole_number --vocab-size "$vocab_size"
  whole_number --max-length "$max_length"
  whole_number --workers "$workers"
  [[ ! $subsample ]] || whole_number --subsample "$subsample"
  [[ $seed =~ ^[0-9]{1,9}$ ]] || die "--seed needs a whole number, not '$seed'."
  [[ $ratio =~ ^[1-9][0-9]*(\.[0-9]+)?$ ]] || die "--ratio needs a number of at least 1, not '$ratio'."
  [[ ! $moses || -d $moses ]] || die "--moses: there is no folder $moses."
  [[ ! $moses ]] || moses=$(cd "$moses" && pwd)
  [[ ! $archives || -d $archives ]] || die "--archives: there is no folder $archives."
  for choice in "${accepted[@]}"; do
    [[ $choice =~ ^[^=]+=sha256:[0-9a-fA-F]{64}$ ]] || die "--accept needs NAME=sha256:CHECKSUM, not '$choice'."
    grep -qxF "${choice%%=*}" < <(cut -f 1 "$archive_table") ||
      die "--accept: there is no archive ${choice%%=*} in $archive_table."
  done
  if [[ $vocabulary ]]; then
    [[ -f $vocabulary/vocab.txt && -f $vocabulary/dict.txt ]] ||
      die "--vocabulary: $vocabulary has no vocab.txt and dict.txt: make them with scripts/import_bert.py."
    tokenizer=none normalized='' subword=${cased:+cased_}wordpiece
  fi
  [[ ! $cased || $vocabulary ]] || die "--cased is for WordPiece: give --vocabulary, too."
  [[ ! $mirror || $mirror =~ ^https?://[^/] ]] || die "--mirror needs an address such as http://localhost:8000, not '$mirror'."
}
