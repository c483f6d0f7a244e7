#!/usr/bin/env bash
# Runs make targets one after the other and prints how long each took: test.sh
# TARGET... Those joined by + run side by side; what they print comes when each
# ends. The first that fails ends the run, after those beside it have ended.
set -euo pipefail
cd "$(dirname "$0")/.."

logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM

# Runs one target; its log ends with how long it took.
timed() {
  local start=$SECONDS code=0
  make --no-print-directory "$1" || code=$?
  printf '%-20s %4d s\n' "$1" $((SECONDS - start)) >"$logs/$1.time"
  return $code
}

report=()
for group in "$@"; do
  read -ra targets <<<"${group//+/ }"
  failed=()
  if ((${#targets[@]} == 1)); then
    echo "== make $group"
    timed "$group" || failed+=("$group")
  else
    echo "== make ${targets[*]}, side by side"
    declare -A running=()
    for target in "${targets[@]}"; do
      timed "$target" >"$logs/$target" 2>&1 &
      running[$!]=$target
    done
    while ((${#running[@]} > 0)); do
      code=0
      wait -n -p ended "${!running[@]}" || code=$?
      target=${running[$ended]}
      unset "running[$ended]"
      ((code == 0)) || failed+=("$target")
      echo "== $target ended with $code"
      cat "$logs/$target"
    done
  fi
  if ((${#failed[@]} > 0)); then
    echo "failed: ${failed[*]}" >&2
    exit 1
  fi
  for target in "${targets[@]}"; do
    report+=("$(<"$logs/$target.time")")
  done
done

echo
echo "all passed:"
printf '  %s\n' "${report[@]}"
