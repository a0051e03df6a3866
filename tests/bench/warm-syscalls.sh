#!/usr/bin/env bash
# Prints every system call of a warm credential and fails when one of them opens a socket or starts a thread
# or a process. The hub is the embedded one, so neither Go nor a network is needed.
#
#   tests/bench/warm-syscalls.sh [CREDENTIAL-EXEC]     default: the static release build
#
# Wants strace, and the binary: cargo build --release --target x86_64-unknown-linux-musl -p credential-exec
set -euo pipefail
cd "$(dirname "$0")/../.."

binary=${1:-target/x86_64-unknown-linux-musl/release/credential-exec}
[ -x "$binary" ] || { echo "warm-syscalls: $binary is not there; see the head of this script" >&2; exit 2; }
CREDENTIAL_EXEC=$(realpath "$binary")
export CREDENTIAL_EXEC CI_NO_SKIP=1
exec cargo test --quiet --locked --package e2e --test warm_path -- --nocapture
