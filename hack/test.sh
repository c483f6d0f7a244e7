#!/usr/bin/env bash
# Runs make targets one after the other and prints how long each took: test.sh
# TARGET... Those joined by + run side by side; what they print comes when each
# ends. The first that fails ends the run, after those beside it have ended, and
# the last lines say which tests failed and how.
set -euo pipefail
cd "$(dirname "$0")/.."

# How much of a failure the last lines repeat.
failure_lines=25

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

# Prints what failed of a target: the verdicts on tests and packages, and what a
# failed test said last. With -v that comes before the verdict, without it after.
failures() {
  awk -v most=8 '
    /^ *=== (RUN|NAME|CONT)/ { test = $3; verbose = 1; next }
    /^ *=== / { next }
    /^ *--- / { failed = $2 == "FAIL:"; if (failed) { print; printf "%s", said[$3] } delete said[$3]; verbose = 0; next }
    /^(FAIL|panic:|make.*Error|fault:|e2e:)/ { print; failed = 0; next }
    /^[^ ]/ { failed = 0; next }
    verbose {
      said[test] = said[test] $0 "\n"
      if (split(said[test], lines, "\n") > most + 1) sub(/^[^\n]*\n/, "", said[test])
      next
    }
    failed { print }
  ' "$1" | tail -n "$failure_lines" | cut -c1-300
}

report=()
for group in "$@"; do
  read -ra targets <<<"${group//+/ }"
  failed=()
  if ((${#targets[@]} == 1)); then
    echo "== make $group"
    timed "$group" 2>&1 | tee "$logs/$group" || failed+=("$group")
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
    # Of a target that ran others by this script, they have said it already.
    for target in "${failed[@]}"; do
      if ! grep -q '^failed: ' "$logs/$target"; then
        echo "== what failed of $target:" >&2
        failures "$logs/$target" >&2
      fi
    done
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
