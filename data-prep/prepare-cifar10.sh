#!/usr/bin/env bash
# Turns archives of CIFAR-10's JPEG images into the folder that image_prediction reads; see --help.
# It takes the archives from a folder, decodes every image, and counts images and classes.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

become prepare cifar10 "$@"
