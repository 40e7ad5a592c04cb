#!/usr/bin/env bash
# Trains a model by a recipe; see --help.
set -euo pipefail
shopt -s extglob
OUT_DIR=''

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"
# shellcheck source=scripts/recipe.sh
source "$repository/scripts/recipe.sh"

usage() {
  cat <<USAGE
usage: bash scripts/train.sh [options] RECIPE [flags of fairseq-train]

Trains by a recipe: a file, or the name of one in scripts/recipes. Flags of fairseq-train after it take the place of the
recipe's. Checkpoints, the log (train.log), the recipe, and run.json with the exact command and the machine go into one
folder; stopped at any moment, the same command goes on, and when all is trained it does nothing.

  --data DIR    folder of the binarised data (default: what the recipe's [data] makes)
  --out DIR     folder of the training (default: runs/RECIPE/seed-N, with the flags where some are given)
  --model NAME  what tables call the model (default: the recipe's name, with the flags but for the seed)
  --help        show this text

recipes: $(list_recipes)

example:
  bash scripts/train.sh multi30k-deen/ea_transformer_lite --seed 2
USAGE
}

data='' out='' model=''
while (($#)); do
  case $1 in
    --data | --out | --model)
      (($# > 1)) || die "$1 needs a value."
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --help | -h) usage && exit ;;
    -*) die "there is no option $1 before the recipe: see --help." ;;
    *) break ;;
  esac
  shift
done
(($#)) || die "name a recipe: see --help for those there are."
recipe=$(find_recipe "$1")
recipe_name=${recipe#"$repository/scripts/recipes/"} recipe_name=${recipe_name%.recipe}
overrides=("${@:2}")

read_recipe "$recipe" train
command=("${flags[@]}" "${overrides[@]}")
if [[ ! $data ]]; then
  read_recipe "$recipe" data
  data=$repository/${flags[-1]##* }/data-bin
  [[ -d $data ]] || die "there is no $data: make it with '${flags[*]}', or name the data with --data."
fi
[[ -d $data ]] || die "--data: there is no folder $data."
data=$(cd "$data" && pwd)

# value_of FLAG: prints the last value of a flag in the command.
value_of() {
  local index
  for ((index = ${#command[@]} - 2; index >= 0; index--)); do
    [[ ${command[index]} != "$1" ]] || { printf '%s\n' "${command[index + 1]}" && return; }
  done
  die "$recipe has no $1: add it to its section [train]."
}

# without_seed FLAGS...: prints the flags that tell models apart.
without_seed() {
  while (($#)); do
    if [[ $1 == --seed ]]; then shift; else printf ' %s' "$1"; fi
    shift
  done
}

seed=$(value_of --seed)
differences=$(without_seed ${overrides[@]+"${overrides[@]}"})
: "${model:=${recipe_name##*/}$differences}"
: "${out:=$repository/runs/$recipe_name$(tr -cs '[:alnum:]._\n-' '_' <<<"$differences")/seed-$seed}"
OUT_DIR=$out
find_python
use_huge_pages
command=(fairseq-train "$data" --user-dir "$repository/ea_fairseq" --save-dir "$out" --log-file "$out/train.log"
  --log-format json "${command[@]}")
{ mkdir -p "$out" && cp "$recipe" "$out/recipe"; } 2>/dev/null ||
  die "cannot write in $out: check its permissions and the space on its disk."
experiment training_run --folder "$out" --model "$model" --recipe "$recipe_name" --overrides "${#overrides[@]}" \
  -- "${command[@]}"
exec "$(dirname "$python")/${command[0]}" "${command[@]:1}"
