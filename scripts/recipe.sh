# shellcheck shell=bash disable=SC2154 # lib.sh sets repository
# Recipes, for quickstart.sh; ea_fairseq/experiments/runs/recipe.py reads them for all else.

recipes=$repository/ea_fairseq/experiments/recipes

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

# recipe_text DATASET/MODEL: prints a recipe as one text: what the model's file says, and then the data set's for models of
# this size, which is the last part of the model's name.
recipe_text() {
  cat "$recipes/models/${1#*/}.recipe"
  echo
  awk -v section="[train ${1##*_}]" '
    /^\[/ { of_other_sizes = /^\[train / && $0 != section; sub(/^\[train .*/, "[train]") }
    !of_other_sizes
  ' "$recipes/datasets/${1%/*}.recipe"
}
