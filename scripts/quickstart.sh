#!/usr/bin/env bash
# Makes .venv, trains an EA-Transformer, or another model, and its baseline, and shows their translations; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

# Any Python answers --help and refuses bad options, before anything is installed.
python=$(find_base_python venv)
PYTHONPATH=$repository "$python" -P -m ea_fairseq quickstart --check "$@"
[[ " $* " != *' --help '* && " $* " != *' -h '* ]] || exit 0
enter_environment
python=$repository/.venv/bin/python
become quickstart "$@"
