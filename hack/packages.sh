#!/usr/bin/env bash
# Prints packages of the module by what their tests need: packages.sh KIND...
#
#   raced        have concurrency of their own: a goroutine, a channel, a lock
#   controllers  run all their tests under the race detector, those with API servers, too
#   large        have tests that are too large for the race detector, which -short leaves out:
#                they run under it, and once more without it
#   servers      start API servers or are large, and are neither the former nor the following
#   programs     start programs made of this tree, or read it by one, so that Go does not
#                see all inputs of their tests (test/programs_test.go has the reasons)
#   rest         all others
#
# A package of several kinds is printed once. Those whose tests take minutes come
# first, lest the end of a run is one of them alone.
set -euo pipefail
cd "$(dirname "$0")/.."

long='^\./(operators|internal/agent/work|internal/agent/push|internal/hub/registration|internal/cli|test/integration)(/|$)'

# Go files of ours, with their tests; what is in testdata is nobody's package.
sources() { grep -rlE --include='*.go' --exclude-dir=testdata "$@"; }
folders() { xargs -r -n1 dirname | sed 's,^\./,,; s,^,./,' | sort -u; }

raced() { sources '(^|[^"`[:alnum:]_])(go (func|[A-Za-z_.]+\()|chan[ <]|(sync|atomic|errgroup)\.)' internal operators cmd | folders; }
servers() {
  (
    go list -test -f '{{with .ForTest}}{{.}} {{join $.Deps " "}}{{end}}' ./... | awk '/capstan\/internal\/testing\/env( |$)/ { print $1 }' |
      sed "s,^$(go list -m),.,"
    large
  ) | sort -u | comm -23 - <( (controllers; programs) | sort -u)
}
large() { printf './%s\n' internal/cluster/dial; }
controllers() { printf './%s\n' internal/server/election internal/server/guard internal/server/metrics internal/kube/watch; }
programs() { printf './%s\n' hack/charts hack/gen internal/cli/install test test/apis test/checks test/docs test/integration/conformance; }
all() { go list ./... | sed "s,^$(go list -m),.," | sort; }
rest() { comm -23 <(all) <( (raced; controllers; servers; programs) | sort -u); }

for kind in "$@"; do
  case $kind in
    raced | controllers | large | servers | programs | rest) "$kind" ;;
    *) echo "packages.sh: $kind: want raced, controllers, large, servers, programs or rest" >&2; exit 2 ;;
  esac
done | sort -u | awk -v long="$long" '$0 ~ long { print; next } { others = others $0 "\n" } END { printf "%s", others }'
