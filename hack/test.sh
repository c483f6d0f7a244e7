#!/usr/bin/env bash
# Runs the given make targets one after the other and prints how long each took.
set -euo pipefail
cd "$(dirname "$0")/.."

report=()
for target in "$@"; do
  start=$SECONDS
  echo "== make $target"
  make --no-print-directory "$target"
  report+=("$(printf '%-18s %4d s' "$target" $((SECONDS - start)))")
done

echo
echo "all passed:"
printf '  %s\n' "${report[@]}"
