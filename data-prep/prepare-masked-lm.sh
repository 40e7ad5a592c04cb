#!/usr/bin/env bash
# Copies one language of prepared sentence pairs for --task masked_lm; see --help.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare masked-lm "$@"
