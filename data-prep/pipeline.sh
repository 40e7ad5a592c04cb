# shellcheck shell=bash
# What all prepare-*.sh share. A script sets its defaults, calls parse_options, says where its text comes from
# (from_archive or from_corpus), and calls prepare.

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
# shellcheck source=data-prep/options.sh
source "$repository/data-prep/options.sh"
# shellcheck source=data-prep/plan.sh
source "$repository/data-prep/plan.sh"
archive_table=$repository/ea_fairseq/data/archives.tsv

recipe=(tokenize clean subword) # what is done with the text, in this order; also: split
binarize=binarize               # and what makes data of it; also: binarize_sentences, of sentences.sh
text_language=''                # where the sides of the text are not called after their languages
normalized=' train valid test ' # splits whose punctuation is normalised
valid_every=''                  # for split: every Nth training pair is for validation
train_bytes=0                   # size of the text for training so far, about
declare -A text_bytes=()        # size of the text from each source, about
declare -A archive_bytes=()     # of each archive, 0 where it is unknown
known_counts=()                 # of the full data, such as train=160239; with ~ for = where others count differently
declare -A text=()              # of each split, the text folders that hold it so far
declare -A version=()           # of each tool
splits=(train valid test)
models=() # subword models

# parse_dataset_options ARGUMENTS...: parses the options of a script that downloads, and opens what it needs.
parse_dataset_options() {
  values+='--archives --mirror --accept '
  parse_options "$@"
  ((${#folders[@]} == 1)) || die "give one folder, OUT_DIR, not ${#folders[@]}: see --help for an example."
  OUT_DIR=${folders[0]}
  made_by+=${task:+ $task}
  check_out_dir
  open_tools
}

# open_tools: sets `python`, `versions` and `version`.
open_tools() {
  local tools=(fairseq) tool number
  find_python
  [[ $tokenizer != moses || $moses ]] || tools+=(sacremoses regex)
  [[ $subword != bpe ]] || tools+=(subword-nmt)
  [[ $subword != sentencepiece ]] || tools+=(sentencepiece)
  versions=$(ours data.tool_versions ${moses:+--moses "$moses"} "${tools[@]}")
  while read -r tool number; do version[$tool]=$number; done <<<"$versions"
}

# from_archive NAME SPLIT FORMAT ARCHIVE MEMBER...: adds text to a split, from files in an archive. In ARCHIVE and MEMBER,
# {lang} stands for each language, and {role} for src with the source language and ref with the target language.
from_archive() {
  local name=$1 split=$2 format=$3 archive role=src language member folders=() members=()
  local bytes=${text_bytes[$1]:-0}
  for language in "${languages[@]}"; do
    archive=${4//\{lang\}/$language}
    plan_download "$archive"
    [[ " ${folders[*]} " == *" archives/$archive "* ]] || folders+=("archives/$archive")
    for member in "${@:5}"; do
      member=${member//\{lang\}/$language}
      members+=(--member "$language=${member//\{role\}/$role}")
    done
    role=ref
  done
  ((train_bytes += bytes)) || true
  plan "extracted/$name" "$(on_disk "$bytes")" "$format ${members[*]}" "${folders[*]}" ours data.extract \
    --format "$format" --languages "${languages[@]}" ${compress:+--compress} "${members[@]}" "${folders[@]/#/$OUT_DIR/}"
  text[$split]+=" extracted/$name"
}

# plan_download ARCHIVE: plans to download an archive, or to link the user's own, once.
plan_download() {
  local known own choice accept=()
  [[ ! ${stamps[archives/$1]-} ]] || return 0
  known=$(awk -F '\t' -v name="$1" '$1 == name' "$archive_table")
  archive_bytes[$1]=$(cut -f 2 <<<"${known%%$'\n'*}" | sed 's/^-$/0/')
  own=$(own_archive "$known")
  for choice in "${accepted[@]}"; do
    [[ $choice != "$1="* ]] || accept=(--accept "$choice")
  done
  plan "archives/$1" "$([[ $own ]] && echo 0 || echo "${archive_bytes[$1]}")" "$known ${accept[*]-}" '' \
    ours data.download --table "$archive_table" \
    ${archives:+--archives "$archives"} ${mirror:+--mirror "$mirror"} "${accept[@]}" "$1"
  remarks[archives/$1]="from ${own:-$(cut -f 4 <<<"${known%%$'\n'*}")}"
}

# own_archive PLACES: prints the user's own file of an archive, where --archives has one called as at one of the places.
own_archive() {
  local address path
  [[ $archives ]] || return 0
  while read -r address; do
    for path in "$archives/${address##*/}" "$archives"/*/"${address##*/}"; do
      [[ ! -f $path ]] || { printf '%s\n' "$path" && return; }
    done
  done < <(cut -f 4 <<<"$1")
}

# from_corpus FOLDER: takes the text of all splits from a folder of train|valid|test.{xx,yy}, plain or .gz.
from_corpus() {
  local checked split lines bytes files
  say "checking $1"
  checked=$(ours data.check_corpus "$1" "${languages[@]}")
  while read -r split lines bytes files; do
    [[ $split != train ]] || train_bytes=$bytes
    # shellcheck disable=SC2086 # the names and checksums of the files are words
    plan "corpus/$split" 0 "$files" '' ours data.link_corpus --languages "${languages[@]}" "$1" \
      "$split" "$lines" $files
    places[corpus/$split]=$(cd "$1" && pwd)
    text[$split]=corpus/$split
  done <<<"$checked"
}

# on_disk BYTES: the size of text of so many bytes on the disk, about.
on_disk() {
  local percent=${compress:+35}
  echo $(($1 * ${percent:-100} / 100))
}

# made_with FOLDER...: the steps that make these text folders.
made_with() {
  printf '%s ' "${@/%split\/*/split}"
}

# plan_text OUTPUT SPLIT PERCENT SETTINGS SCRIPT OPTIONS...: plans to make OUTPUT of the text of a split and of `models`;
# for train its size is PERCENT of what it was, and it is compressed on demand.
plan_text() {
  local output=$1 split=$2 percent=$3 settings=$4 script=$5 bytes=0 folders options=()
  shift 5
  read -ra folders <<<"${text[$split]}"
  if [[ $split == train ]]; then
    train_bytes=$((train_bytes * percent / 100)) bytes=$train_bytes
    if [[ $compress ]]; then
      options=(--compress)
      bytes=$(on_disk "$bytes")
    fi
  fi
  settings+=" $script ${*//"$OUT_DIR/"/}" # not where things are, but what they are
  plan "$output" "$bytes" "${settings//"${moses:-no Moses}"/}" "$(made_with "${folders[@]}" "${models[@]}")" \
    ours "data.${script%.py}" --languages "${languages[@]}" --workers "$workers" "${options[@]}" "$@" \
    -- "${folders[@]/#/$OUT_DIR/}"
}

plan_tokenize() {
  local split options version_of_tokenizer="${version[moses]-} ${version[sacremoses]-} ${version[regex]-}"
  if [[ $subsample ]] && ((subsample * 320 < train_bytes)); then
    train_bytes=$((subsample * 320))
  fi
  for split in "${splits[@]}"; do
    [[ ${text[$split]-} ]] || continue
    options=(--tokenizer "$tokenizer")
    [[ $normalized != *" $split "* ]] || options+=(--normalize)
    [[ ! $dash_splits ]] || options+=(--dash-splits)
    [[ ! $lowercase ]] || options+=(--lowercase)
    [[ ! $moses ]] || options+=(--moses "$moses")
    [[ ! $text_language ]] || options+=(--language "$text_language")
    [[ ! $subsample || $split != train || ${labelled-} ]] || options+=(--sample "$subsample" --seed "$seed")
    plan_text "tokenized/$split" "$split" 105 "$version_of_tokenizer" tokenize_text.py "${options[@]}"
    text[$split]=tokenized/$split
  done
}

plan_clean() {
  plan_text cleaned/train train 98 '' clean_pairs.py --max-length "$max_length" --ratio "$ratio"
  text[train]=cleaned/train
}

plan_split() {
  plan_text split train 100 '' split_pairs.py --every "$valid_every"
  text[train]=split/train
  text[valid]=split/valid
}

plan_subword() {
  local language split size suffix tool
  case $subword in
    bpe) size=$merges suffix=codes tool=subword-nmt ;;
    sentencepiece) size=$vocab_size suffix=model tool=sentencepiece ;;
  esac
  if [[ $subword == *wordpiece ]]; then
    plan_copy vocab.txt "$vocabulary"
    models=(vocab.txt)
  elif [[ $separate_subword ]]; then
    for language in "${languages[@]}"; do plan_model "$subword.$language.$suffix" "$language"; done
    models=("$subword.$source_lang.$suffix" "$subword.$target_lang.$suffix")
  else
    plan_model "$subword.$suffix" "${languages[@]}"
    models=("$subword.$suffix")
  fi
  for split in "${splits[@]}"; do
    plan_text "subword/$split" "$split" 115 '' apply_subword.py --kind "$subword" "${models[@]/#/--model=$OUT_DIR/}"
    text[$split]=subword/$split
  done
}

# plan_copy FILE FOLDER: plans to take FILE from a folder.
plan_copy() {
  plan "$1" 0 "$(sha256sum <"$2/$1")" '' cp -- "$2/$1"
}

# plan_model MODEL LANGUAGE...: plans to learn a subword model from the training text of the languages.
plan_model() {
  plan "$1" 0 "$subword $model_type $size ${version[$tool]} ${*:2}" "$(made_with "${text[train]}")" ours data.learn_subword --kind "$subword" --model-type "$model_type" --size "$size" --workers "$workers" \
    --languages "${@:2}" -- "$OUT_DIR/${text[train]}"
}

plan_binarize() {
  local split settings options=()
  mapfile -t settings < <(text_settings)
  for split in "${splits[@]}"; do options+=("--$split" "$OUT_DIR/${text[$split]}"); done
  [[ ! $joined_dictionary ]] || options+=(--joined-dictionary)
  plan data-bin $((train_bytes * 80 / 100)) "${version[fairseq]} $joined_dictionary" \
    "$(made_with "${text[@]}" "${models[@]}")" ours data.binarize \
    --languages "${languages[@]}" --workers "$workers" "${options[@]}" --versions "$versions" \
    --settings "dataset=$script" "${settings[@]}" --models "${models[@]/#/$OUT_DIR/}" --
}

# prepare: plans the recipe, then shows the plan or runs it.
prepare() {
  local step strict=()
  [[ $subword != none ]] || mapfile -t recipe < <(printf '%s\n' "${recipe[@]}" | grep -vx subword)
  for step in "${recipe[@]}"; do "plan_$step"; done
  "plan_$binarize"
  if [[ $dry_run ]]; then
    find_todo
    show_plan
    return
  fi
  open_out_dir
  find_todo
  check_disk
  run_plan
  [[ ${accepted[*]} || $defaults != "$(text_settings)" ]] || strict=(--strict)
  ours data.check_counts "${strict[@]}" "$OUT_DIR/data-bin/manifest.json" "${known_counts[@]}"
  say "done: $OUT_DIR/data-bin"
}
