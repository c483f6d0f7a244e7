#!/usr/bin/env bash
# Fuzzes every fuzz target, one after the other: fuzz.sh TIME CORPUS KEEP.
# TIME is per target, as `go test -fuzztime` takes it. CORPUS is a directory of
# the inputs that reached new code, in earlier runs and in this one. KEEP is how
# many of them, the smallest, testdata/fuzz gets, where every `go test` runs
# them. An input that fails goes there as well: commit it with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."

time=$1 corpus=$(mkdir -p "$2" && cd "$2" && pwd) keep=$3
module=$(go list -m)
[[ $time =~ ^[0-9]+(x|[0-9.hmsun]*[hms])$ ]] || { echo "FUZZTIME is $time; want a duration such as 30s, or a number of runs such as 1000x" >&2; exit 1; }
[[ $keep =~ ^[0-9]+$ ]] || { echo "FUZZ_KEEP is $keep; want a number" >&2; exit 1; }

failed=()
while IFS=: read -r file _ line; do
  directory=$(dirname "${file#./}")
  target=$(sed -E 's/^func (Fuzz[A-Za-z0-9_]+).*/\1/' <<<"$line")
  found=$corpus/$directory/$target kept=$directory/testdata/fuzz/$target
  echo "== $directory $target"
  # Go keeps what it finds in its build cache; -test.fuzzcachedir puts it elsewhere.
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$module/$directory" \
    -args -test.fuzzcachedir="$corpus/$directory" || failed+=("$directory $target")
  if ((keep > 0)) && [[ -d $found ]]; then
    mkdir -p "$kept"
    find "$found" -type f -printf '%s %p\n' | sort -n | head -n "$keep" | cut -d' ' -f2- | xargs -r cp -n -t "$kept"
  fi
done < <(grep -rn --include='*_test.go' -E '^func Fuzz[A-Za-z0-9_]+\(f \*testing\.F\)' . | sort)
((${#failed[@]} == 0)) || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }
