#!/usr/bin/env bash
# Turns documents with rationales, as in the ERASER benchmark, into data for a classifier; see --help.
# It checks every line, cuts long documents into windows, applies the model's subwords, and binarises.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare rationales "$@"
