#!/usr/bin/env bash
# Runs the tests of every package that needs an API server again and again while
# other processes keep the CPU busy: soak.sh RUNS BURNERS. A wait that is too
# short for a slow machine fails here first. Prints each failure when it happens
# and all of them at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=$1 burners=$2
log=$(mktemp -d)
pids=()
for ((i = 0; i < burners; i++)); do
  (while :; do :; done) &
  pids+=($!)
done
trap 'kill "${pids[@]}" 2>/dev/null; rm -rf "$log"' EXIT

# A package needs an API server if its tests import the environment for that.
mapfile -t packages < <(go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
  awk '/internal\/testing\/env( |$)/ { print $1 }')

failed=()
for ((run = 1; run <= runs; run++)); do
  for package in "${packages[@]}"; do
    start=$SECONDS
    if go test -count=1 -timeout 60m "$package" >"$log/out" 2>&1; then
      echo "run $run: ok   $package $((SECONDS - start)) s"
    else
      echo "run $run: FAIL $package $((SECONDS - start)) s"
      grep -E -A12 '^ *--- FAIL|^panic|^FAIL' "$log/out" | sed 's/^/  /' || true
      failed+=("run $run $package")
    fi
  done
done
echo
if ((${#failed[@]} > 0)); then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "${#packages[@]} packages passed $runs times"
