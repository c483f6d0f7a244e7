#!/usr/bin/env bash
# Runs tests again and again while other processes keep the CPU busy. A wait that is
# too short for a slow machine fails here first. Prints each failure when it happens
# and all of them at the end.
#
#   soak.sh all RUNS       every package
#   soak.sh COMMIT RUNS    every package that changed since the commit, and three
#                          times those that import one
#
# It goes on where it was ended: bin/soak has how often the tests of each package have
# passed, as they and what they test are now. SOAK_BURNERS is how many processes keep
# the CPU busy, 2 by default.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $# == 2 && $2 =~ ^[1-9][0-9]*$ ]] || { echo "usage: soak.sh all|COMMIT RUNS" >&2; exit 2; }
since=$1 runs=$2 burners=${SOAK_BURNERS:-2}
if [[ $since != all ]] && ! git rev-parse --quiet --verify "$since^{commit}" >/dev/null; then
  echo "soak: $since is no commit of this clone: name the commit before the changes (make soak-changed SOAK_BASE=...), or fetch it" >&2
  exit 2
fi
dependants_runs=3
done=bin/soak
mkdir -p "$done"

module=$(go list -m)
# Their tests start programs of the tree, or read it by one.
programs=$(hack/packages.sh programs)

# Prints what the result of a package's tests depends on, as it is now, committed or not:
# the program of its tests, what they read, or all there is. state PACKAGE PROGRAM
state() {
  {
    sha256sum <"$2"
    if grep -qxF "$1" <<<"$programs"; then
      git ls-files -s
      git diff HEAD
      git ls-files --others --exclude-standard -z | xargs -0 -r sha256sum
    elif [[ -d $1/testdata ]]; then
      find "$1/testdata" -type f -print0 | sort -z | xargs -0 -r sha256sum
    fi
  } | sha256sum | cut -c1-16
}

# All lines are "RUNS PACKAGE".
all() { hack/packages.sh controllers servers programs raced rest | sed "s/^/$runs /"; }
changed() {
  local folders
  folders=$( { git diff --name-only "$since" -- '*.go' '*/testdata/*'; git ls-files --others --exclude-standard -- '*.go'; } |
    sed -E 's,/testdata/.*,/x,; s,/[^/]*$,,; s,^,./,' | sort -u)
  # Folders that are gone, and other modules, have no package here.
  local packages
  packages=$(for folder in $folders; do go list "$folder" 2>/dev/null || true; done)
  [[ -n $packages ]] || { echo "soak: no package of this module has changed since $since" >&2; return 1; }
  sed "s/^/$runs /" <<<"$packages"
  # A test binary depends on what the package and its tests import.
  go list -test -f '{{with .ForTest}}{{.}} {{join $.Deps " "}}{{end}}' ./... |
    awk -v runs="$dependants_runs" -v packages="$packages" '
      BEGIN { n = split(packages, list, "\n"); for (i = 1; i <= n; i++) is[list[i]] = 1 }
      !is[$1] { for (i = 2; i <= NF; i++) if (is[$i]) { print runs, $1; next } }' | sort -u
}

if [[ $since == all ]]; then list=$(all); else list=$(changed) || exit 1; fi
list=$(sed "s,\([0-9]\) $module,\1 .," <<<"$list")

pids=()
for ((i = 0; i < burners; i++)); do
  (while :; do :; done) &
  pids+=($!)
done
trap 'kill "${pids[@]}" 2>/dev/null || true' EXIT

failed=() count=0
while read -r times package; do
  name=${package#./}
  program=$PWD/$done/${name//\//_}.test log=$PWD/$done/${name//\//_}.log
  if ! go test -c -vet=off -buildvcs=false -o "$program" "$package" >"$log" 2>&1; then
    cat "$log"
    failed+=("$package does not compile")
    continue
  fi
  [[ -e $program ]] || continue # it has no tests
  count=$((count + 1))
  file=$done/${name//\//_}-$(state "$package" "$program")
  before=$(cat "$file" 2>/dev/null || echo 0)
  for ((run = before + 1; run <= times; run++)); do
    start=$SECONDS
    if (cd "$package" && "$program" -test.timeout=60m -test.paniconexit0) </dev/null >"$log" 2>&1; then
      echo "run $run of $times: ok   $package $((SECONDS - start)) s"
      echo "$run" >"$file"
    else
      echo "run $run of $times: FAIL $package $((SECONDS - start)) s"
      cp "$log" "$log.failed.$run"
      grep -E -A12 '^ *--- FAIL|^panic|^FAIL' "$log" | sed 's/^/  /' || true
      failed+=("run $run $package: $log.failed.$run")
    fi
  done
  rm -f "$program"
done <<<"$list"
echo
if ((${#failed[@]} > 0)); then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "$count packages passed as often as they had to"
