#!/usr/bin/env bash
# Trains a model by a recipe; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"
# shellcheck source=scripts/recipe.sh
source "$repository/scripts/recipe.sh"

usage() {
  cat <<USAGE
usage: bash scripts/train.sh [options] RECIPE [flags of fairseq-train]

Trains by a recipe: a file, or DATASET/MODEL. Flags of fairseq-train after it take the place of the
recipe's; the options below may stand anywhere. Checkpoints, the log (train.log), the recipe, and run.json with
the exact command and the machine go into one folder; stopped at any moment, the same command goes on, and when
all is trained it does nothing.

  --data DIR    folder of the binarised data (default: what the recipe's [data] makes)
  --out DIR     folder of the training (default: runs/RECIPE/seed-N, with the flags where some tell models apart)
  --model NAME  what tables call the model (default: the recipe's name, with the flags that tell models apart)
  --help        show this text

These flags tell no models apart:$undistinguishing

recipes, DATASET/MODEL:
$(describe_recipes)

example:
  bash scripts/train.sh multi30k-deen/ea_transformer_lite --seed 2
USAGE
}

printf -v called '%q ' bash scripts/train.sh "${@#"$repository/"}"
data='' out='' model='' recipe='' overrides=()
while (($#)); do
  case $1 in
    --data | --out | --model)
      (($# > 1)) || die "$1 needs a value."
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --help | -h) usage && exit ;;
    *)
      if [[ $recipe ]]; then
        overrides+=("$1")
      else
        [[ $1 != -* ]] || die "there is no option $1 before the recipe: see --help."
        recipe=$1
      fi
      ;;
  esac
  shift
done
[[ $recipe ]] || die "name a recipe: see --help for those there are."
recipe=$(find_recipe "$recipe")
[[ " ${overrides[*]} " != *' --save-dir'[\ =]* ]] || die "--save-dir is for train.sh to give: name the folder with --out."
find_data "$recipe"
read_recipe "$recipe" train
((${#flags[@]})) || die "$recipe has no section [train]: add it, with the flags of fairseq-train."
find_start "$recipe" "${overrides[@]}"
flags+=("${overrides[@]}")

find_last --seed "${flags[@]}"
seed=$value
[[ $seed =~ ^[0-9]+$ ]] || die "--seed needs a whole number, not '$seed': give it, or add it to [train] of $recipe."
differences=$(distinguishing "${overrides[@]}")
recipe_name=$(name_of "$recipe")
: "${model:=${recipe_name##*/}$differences}"
: "${out:=$repository/runs/$recipe_name$(as_folder "$differences")/seed-$seed}"
[[ ! $out =~ [^/]{256} ]] || die "the name of the folder is longer than a disk takes: name another with --out."
[[ $out == /* ]] || out=$PWD/$out
check_path "$out"
OUT_DIR=$out
find_programs
{ mkdir -p "$out" && : >>"$out/lock"; } 2>/dev/null ||
  die "cannot write in $out: check its permissions and the space on its disk."
wait_for_lock "$out/lock"
command=(fairseq-train "$data" --user-dir "$repository/ea_fairseq" --save-dir "$out" --log-file "$out/train.log"
  --log-format json "${flags[@]}")
trained=$(ours experiments.runs.training_run --folder "$out" --model "$model" --recipe "$recipe_name" --called "${called% }" \
  --overrides "${#overrides[@]}" -- "${command[@]}")
if [[ $trained ]]; then
  say "$trained"
  exit
fi
[[ $recipe -ef $out/recipe ]] || { recipe_text "$recipe" >"$out/recipe.tmp" && mv "$out/recipe.tmp" "$out/recipe"; } 2>/dev/null ||
  die "cannot write in $out: check its permissions and the space on its disk."
use_huge_pages
exec "$(dirname "$python")/${command[0]}" "${command[@]:1}"
