#!/usr/bin/env bash
# Turns a data set of time series into the folder that our tasks read; see --help.
# It downloads a few data sets and takes others from a folder, checks every line, and counts the series.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare uea "$@"
