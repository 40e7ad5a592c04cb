# shellcheck shell=bash disable=SC2154 # lib.sh sets repository
# Recipes: files that state in flat lines what data a model needs, what it is trained with and evaluated with.

# find_recipe NAME: prints the path of a recipe, given by that or by its name in scripts/recipes.
find_recipe() {
  local candidate
  for candidate in "$1" "$repository/scripts/recipes/$1.recipe"; do
    [[ -f $candidate ]] || continue
    printf '%s/%s\n' "$(cd "$(dirname "$candidate")" && pwd)" "$(basename "$candidate")"
    return
  done
  die "there is no recipe $1: give a file, or one of $(list_recipes)."
}

# list_recipes: prints the names of the recipes in scripts/recipes.
list_recipes() {
  (cd "$repository/scripts/recipes" && printf '%s\n' */*.recipe | sed 's/\.recipe$//' | paste -sd ' ')
}

# name_of RECIPE_FILE: prints the name of a recipe: DATASET/MODEL in scripts/recipes, that of its file elsewhere.
name_of() {
  local name=${1%.recipe} own=$repository/scripts/recipes/
  [[ $name == "$own"* ]] || own=${name%/*}/
  printf '%s\n' "${name#"$own"}"
}

# read_recipe FILE SECTION [FLAGS]: sets `flags` to the words in a section: of each line the flag and all that follows
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
  done <"$1"
}

# find_data RECIPE_FILE: sets `data`, unless it is set, to the binarised data that a recipe is for.
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

# The flags that do not tell models apart: those of the seed, the device and the log.
undistinguishing=' --seed --cpu --fp16 --autocast --num-workers --log-interval --log-format --tensorboard-logdir --wandb-project '

# distinguishing FLAGS...: prints a space and each of the words that tell models apart, values like their flags.
distinguishing() {
  local word kept=yes
  for word; do
    if [[ $undistinguishing == *" ${word%%=*} "* ]]; then kept=''; elif [[ $word == --* ]]; then kept=yes; fi
    [[ ! $kept ]] || printf ' %s' "$word"
  done
}

# as_folder WORDS: prints words as the name of a folder, without spaces.
as_folder() {
  tr -cs '[:alnum:]._\n-' '_' <<<"$1"
}
