# shellcheck shell=bash disable=SC2154 # lib.sh sets repository
# Recipes: files that state in flat lines what a data set is made with, a model trained with and evaluated with.

# find_recipe NAME: prints the path of a recipe, given by that or by its name in scripts/recipes.
find_recipe() {
  local candidate
  for candidate in "$1" "$repository/scripts/recipes/$1.recipe"; do
    [[ ! -f $candidate ]] || { printf '%s\n' "$candidate" && return; }
  done
  die "there is no recipe $1: give a file, or one of $(list_recipes)."
}

# list_recipes: prints the names of the recipes in scripts/recipes.
list_recipes() {
  (cd "$repository/scripts/recipes" && printf '%s\n' */*.recipe | sed 's/\.recipe$//' | paste -sd ' ')
}

# read_recipe FILE SECTION: sets `flags` to the words in a section: of each line the flag and all that follows it.
read_recipe() {
  local line section=''
  flags=()
  while IFS= read -r line || [[ $line ]]; do
    line=${line%%+([[:space:]])}
    case $line in
      '' | '#'*) ;;
      '['*']') section=${line:1:-1} ;;
      *)
        [[ $section ]] || die "$1: '$line' stands before the first section, such as [train]."
        [[ $section == "$2" ]] || continue
        flags+=("${line%%[[:space:]]*}")
        [[ $line != *[[:space:]]* ]] || flags+=("${line#*[[:space:]]}")
        ;;
    esac
  done <"$1"
}
