#!/usr/bin/env bash
# Takes one language of prepared sentence pairs as text for --task masked_lm; see --help.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare masked-lm "$@"
