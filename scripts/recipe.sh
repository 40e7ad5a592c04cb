# shellcheck shell=bash disable=SC2154 # lib.sh sets repository
# Recipes state in flat lines what data a model needs, what it is trained with and evaluated with. A recipe is a file, or
# DATASET/MODEL: a file of ea_fairseq/experiments/recipes/models and one of ea_fairseq/experiments/recipes/datasets.

recipes=$repository/ea_fairseq/experiments/recipes

# find_recipe NAME: prints which recipe is meant, DATASET/MODEL or the path of a file.
find_recipe() {
  if [[ -f $1 ]]; then
    printf '%s/%s\n' "$(cd "$(dirname "$1")" && pwd)" "$(basename "$1")"
  elif grep -qxF -- "$1" < <(list_recipes | tr ' ' '\n'); then # no pipe, whose writer grep may leave behind
    printf '%s\n' "$1"
  else
    die "there is no recipe $1: give a file, or DATASET/MODEL, which bash scripts/train.sh --help lists."
  fi
}

# list_recipes: prints all DATASET/MODEL: a data set has recipes for the models whose size it has a section [train SIZE] for.
list_recipes() {
  local dataset model sizes names=()
  for dataset in "$recipes"/datasets/*.recipe; do
    sizes=$(sed -n 's/^\[train \(.*\)\].*/\1/p' "$dataset")
    dataset=${dataset##*/} dataset=${dataset%.recipe}
    for model in "$recipes"/models/*.recipe; do
      model=${model##*/} model=${model%.recipe}
      [[ $'\n'$sizes$'\n' != *$'\n'"${model##*_}"$'\n'* ]] || names+=("$dataset/$model")
    done
  done
  echo "${names[@]}"
}

# describe_recipes: prints all recipes for people: data sets that have the same models in one block, their models beneath.
describe_recipes() {
  list_recipes | tr ' ' '\n' | awk -F/ '
    { if (!($1 in models)) datasets[++count] = $1; models[$1] = models[$1] " " $2 }
    END {
      for (i = 1; i <= count; i++) {
        of = models[datasets[i]]
        if (!(of in sharing)) blocks[++last] = of
        sharing[of] = sharing[of] " " datasets[i]
      }
      for (i = 1; i <= last; i++) print sharing[blocks[i]] ":\n" blocks[i]
    }' | fold -s -w 112 | sed 's/^ *//; s/ *$//; /:$/! s/^/    /; /:$/ s/^/  /'
}

# name_of RECIPE: prints its name: DATASET/MODEL, or that of its file.
name_of() {
  [[ $1 != /* ]] || set -- "$(basename "$1" .recipe)"
  printf '%s\n' "$1"
}

# recipe_text RECIPE: prints a recipe as one text: of DATASET/MODEL, what the model's file says, and then the data set's
# for models of this size, which is the last part of the model's name.
recipe_text() {
  if [[ $1 == /* ]]; then
    cat "$1"
  else
    cat "$recipes/models/${1#*/}.recipe"
    echo
    awk -v section="[train ${1##*_}]" '
      /^\[/ { of_other_sizes = /^\[train / && $0 != section; sub(/^\[train .*/, "[train]") }
      !of_other_sizes
    ' "$recipes/datasets/${1%/*}.recipe"
  fi
}

# read_recipe RECIPE SECTION [FLAGS]: sets `flags` to the words in a section: of each line the flag and all that follows
# it. With FLAGS, a list with a space around each, the section may have no others; those with a value end in '='.
read_recipe() {
  local line number=0 section='' flag value
  flags=()
  while IFS= read -r line || [[ $line ]]; do
    number=$((number + 1))
    line=${line%"${line##*[![:space:]]}"} line=${line#"${line%%[![:space:]]*}"}
    case $line in
      '' | '#'*) continue ;;
      '[data]' | '[train]' | '[evaluate]') section=${line:1:-1} && continue ;;
      '['*) die "$1, line $number: a recipe has no section $line: its sections are [data], [train] and [evaluate]." ;;
    esac
    [[ $section ]] || die "$1, line $number: '$line' stands before the first section: put it below [train]."
    [[ $section == data || $line == --* ]] || die "$1, line $number: '$line' is no flag: write --FLAG VALUE."
    [[ $section == "$2" ]] || continue
    flag=${line%%[[:space:]]*} value=${line:${#flag}} value=${value#"${value%%[![:space:]]*}"}
    [[ $# == 2 || $3 == *" $flag${value:+=} "* ]] ||
      die "$1, line $number: '$line' is not for a recipe beside checkpoints: only$3may stand there, with their values."
    flags+=("$flag" ${value:+"$value"})
  done < <(recipe_text "$1")
}

# find_data RECIPE: sets `data`, unless it is set, to the binarised data that a recipe is for.
find_data() {
  if [[ ! $data ]]; then
    read_recipe "$1" data
    ((${#flags[@]})) || die "$1 has no section [data]: add it, or name the data with --data."
    data=${flags[-1]##* }/data-bin
    [[ $data == /* ]] || data=$repository/$data
    [[ -d $data ]] || die "there is no $data: make it with \"cd '$repository' && ${flags[*]}\", or name the data with --data."
  fi
  [[ -d $data ]] || die "--data: there is no folder $data."
  data=$(cd "$data" && pwd)
  check_path "$data"
}

# The flags that do not tell models apart: those of the seed, the code, the device, the speed and the log.
undistinguishing=' --seed --user-dir --cpu --fp16 --autocast --fast-dropout --num-workers --log-interval --log-format --tensorboard-logdir --wandb-project '

# distinguishing FLAGS...: prints a space and each of the words that tell models apart, values like their flags.
distinguishing() {
  local word kept=yes
  for word; do
    if [[ $undistinguishing == *" ${word%%=*} "* ]]; then kept=''; elif [[ $word == --* ]]; then kept=yes; fi
    [[ ! $kept ]] || printf ' %s' "$word"
  done
}

# find_last FLAG WORDS...: sets `value` to the last value that words give to a flag, empty where they give none.
find_last() {
  local flag=$1
  value=''
  while shift && (($#)); do
    case $1 in
      "$flag") value=${2-} ;;
      "$flag="*) value=${1#*=} ;;
    esac
  done
}

# as_folder WORDS: prints words as the name of a folder, without spaces.
as_folder() {
  tr -cs '[:alnum:]._\n-' '_' <<<"$1"
}

# find_start RECIPE FLAGS...: makes the checkpoint from which a recipe of ours, in `flags`, starts a path of this project;
# dies where it is not there, unless FLAGS name another.
find_start() {
  local index
  [[ $1 != /* ]] || return 0
  for index in "${!flags[@]}"; do
    [[ ${flags[index]} == --finetune-from-model && ${flags[index + 1]} != /* ]] || continue
    flags[index + 1]=$repository/${flags[index + 1]}
    [[ -f ${flags[index + 1]} || " ${*:2} " == *' --finetune-from-model'[\ =]* ]] ||
      die "$1 starts from ${flags[index + 1]}, which is not there: make it as docs/encoder-experiments.md says, or name another with --finetune-from-model after the recipe."
  done
}
