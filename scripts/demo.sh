#!/usr/bin/env bash
# Opens a local page that translates and shows attention; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

find_python
if [[ " $* " != *' --help '* && " $* " != *' -h '* ]] && ! "$python" -c 'import starlette, uvicorn' 2>/dev/null; then
  say "installing what serves the page (starlette, uvicorn)"
  "$python" -m pip install -q --disable-pip-version-check --constraint "$repository/constraints.txt" starlette uvicorn ||
    die "installing starlette and uvicorn failed, see above: run 'pip install starlette uvicorn' in the environment of $python."
fi
become demo "$@"
