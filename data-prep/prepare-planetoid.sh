#!/usr/bin/env bash
# Turns a graph of citations, Cora or Citeseer, into the folder that node_prediction reads; see --help.
# It takes the tables from a folder, checks every line, and counts nodes and edges.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare planetoid "$@"
