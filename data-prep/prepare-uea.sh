#!/usr/bin/env bash
# A data set of time series, from its files to the folder that our tasks read; see --help.
# A few are downloaded, the others taken from a folder; every line is checked, and the series are counted.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare uea "$@"
