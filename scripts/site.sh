#!/usr/bin/env bash
# Builds the project's pages as a site and serves it on this machine; see --help.
set -euo pipefail

# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'USAGE'
usage: bash scripts/site.sh [--build DIR] [--port N]

Builds a site of README.md, docs/, the model cards, the API and the attention maps of a released model, into runs/site,
and serves it on 127.0.0.1, port 8000 or N. Its pages load nothing from other hosts.

  --build DIR  only build, into DIR

example:
  bash scripts/site.sh --port 8080
USAGE
}

# make_site FOLDER: builds the site; a warning, such as of a broken link, is an error.
make_site() {
  local doctrees status=0
  [[ ! -e $1 || -f $1/.buildinfo || (-d $1 && ! $(ls -A "$1")) ]] || die "$1 exists and is not a site: give a new folder."
  install_missing "the site's generator" sphinx myst-parser furo matplotlib
  doctrees=$(mktemp -d)
  PYTHONPATH=$repository "$python" -P -m sphinx --quiet --fail-on-warning --keep-going --conf-dir "$repository/docs/site" \
    --doctree-dir "$doctrees" "$repository" "$1" || status=$?
  rm -rf "$doctrees"
  ((status == 0)) || die "building the site failed, see above."
}

build='' port=8000
while (($#)); do
  case $1 in
    --help | -h) usage && exit ;;
    --build | --port) (($# > 1)) || die "$1 needs a value: see --help." ;;
    *) die "there is no option $1: see --help." ;;
  esac
  printf -v "${1#--}" %s "$2"
  shift 2
done

find_python
if [[ $build ]]; then
  make_site "$build"
  say "the site is in $build: open index.html there"
else
  "$python" -c 'import socket, sys; socket.create_server(("127.0.0.1", int(sys.argv[1])))' "$port" 2>/dev/null ||
    die "--port: nothing can be served on port $port: give another number."
  make_site "$repository/runs/site"
  exec "$python" -m http.server --bind 127.0.0.1 --directory "$repository/runs/site" "$port"
fi
