#!/usr/bin/env bash
# Opens a local page that translates and shows attention; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

find_python
if [[ " $* " != *' --help '* && " $* " != *' -h '* ]]; then
  install_missing "the page's server" starlette uvicorn
fi
become demo "$@"
