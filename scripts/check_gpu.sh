#!/usr/bin/env bash
# Checks everything that this package does on a GPU; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

carried=$repository/.whl
# missing_packages PYTHON: prints the packages that PYTHON lacks.
missing_packages() {
  "$1" -P "$repository/ea_fairseq/experiments/gpu_check/packages.py" "$repository/constraints.txt"
}

# require_packages PYTHON: exits with an error if PYTHON lacks packages, and says how to carry them here.
require_packages() {
  local lacks version
  lacks=$(missing_packages "$1" | tr '\n' ' ') version=$(version_of "$1")
  [[ ! $lacks ]] ||
    die "this Python lacks ${lacks% }: without network, run 'python$version -m pip wheel --no-deps --wheel-dir .whl ${lacks% }' on a machine that has one, copy the folder .whl into $repository, and run the same command again."
}

# use_carried_packages: makes an environment from this machine's PyTorch and the packages in .whl.
use_carried_packages() {
  local environment=$repository/.venv-gpu base
  base=$(find_base_python torch)
  if ! "$environment/bin/python" -c 'import torch' >/dev/null 2>&1 || [[ $(missing_packages "$environment/bin/python") ]]; then
    say "making the Python environment $environment from the packages in $carried"
    if ! { "$base" -m venv --clear --without-pip "$environment" &&
      "$base" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])' >"$(
        "$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
      )/machine.pth" &&
      "$base" -m pip --python "$environment/bin/python" install -q --disable-pip-version-check --no-index --no-deps \
        "$carried"/*.whl; }; then
      die "could not install the packages in $carried, see above: they must be for Python $(version_of "$base")."
    fi
  fi
  require_packages "$environment/bin/python"
  export PATH=$environment/bin:$PATH
  hash -r
}

# find_or_make_python: uses an environment that has fairseq, or the carried packages, or what pip installs.
find_or_make_python() {
  local base
  ! (find_python) >/dev/null 2>&1 || return 0
  if compgen -G "$carried/*.whl" >/dev/null; then
    use_carried_packages
  elif ! (enter_environment); then
    base=$(find_base_python torch)
    require_packages "$base"
    die "making the environment failed, see above."
  fi
}

[[ " $* " == *' --help '* || " $* " == *' -h '* ]] || find_or_make_python
find_python
become check-gpu "$@"
