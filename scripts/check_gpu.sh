#!/usr/bin/env bash
# Checks on a GPU all that this package does there; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

carried=$repository/.whl
# What a machine for training usually lacks beside PyTorch.
packages=(fairseq-fixed omegaconf hydra-core antlr4-python3-runtime bitarray subword-nmt sacremoses sacrebleu portalocker
  regex tabulate colorama lxml mock sentencepiece torchprofile)

# missing_packages PYTHON: prints those that it lacks, with the versions of constraints.txt.
missing_packages() {
  "$1" -I -c '
import sys
from importlib.metadata import PackageNotFoundError, version
pinned = dict(line.split("==") for line in open(sys.argv[1]).read().split() if "==" in line)
for name in sys.argv[2:]:
    try:
        version(name)
    except PackageNotFoundError:
        print(f"{name}=={pinned[name]}")
' "$repository/constraints.txt" "${packages[@]}"
}

# find_torch_python: prints an active Python that has PyTorch and that fairseq can be imported in.
find_torch_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 python python3.12 python3.11 python3.13; do
    "$candidate" -c 'import sys, torch; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' >/dev/null 2>&1 || continue
    printf '%s\n' "$candidate"
    return
  done
  die "no active Python from 3.11 to 3.13 has PyTorch: install it first, with CUDA."
}

# use_carried_packages: makes an environment of PyTorch as it is on this machine and of the packages in .whl.
use_carried_packages() {
  local environment=$repository/.venv-gpu base
  base=$(find_torch_python)
  if ! "$environment/bin/python" -c 'import fairseq, torch' >/dev/null 2>&1; then
    say "making the Python environment $environment of the packages in $carried"
    if ! { "$base" -m venv --clear --without-pip "$environment" &&
      "$base" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])' >"$(
        "$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
      )/machine.pth" &&
      "$base" -m pip --python "$environment/bin/python" install -q --disable-pip-version-check --no-index --no-deps \
        "$carried"/*.whl; }; then
      die "could not install the packages in $carried, see above: they must be for Python $(version_of "$base")."
    fi
  fi
  export PATH=$environment/bin:$PATH
  hash -r
}

# find_or_make_python: takes an environment that has fairseq, or carried packages, or what pip finds.
find_or_make_python() {
  local base lacks version
  ! (find_python) >/dev/null 2>&1 || return 0
  if compgen -G "$carried/*.whl" >/dev/null; then
    use_carried_packages
  elif ! (enter_environment); then
    base=$(find_torch_python)
    version=$(version_of "$base") lacks=$(missing_packages "$base" | tr '\n' ' ')
    die "this Python lacks ${lacks% }: without network, run 'python$version -m pip wheel --no-deps --wheel-dir .whl ${lacks% }' on a machine that has one, copy the folder .whl into $repository, and run the same command again."
  fi
}

[[ " $* " == *' --help '* || " $* " == *' -h '* ]] || find_or_make_python
find_python
PYTHONPATH=$repository/scripts exec "$python" -P -m experiments.gpu_check.check_gpu "$@"
