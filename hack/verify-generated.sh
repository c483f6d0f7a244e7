#!/usr/bin/env bash
# Regenerates everything and fails if that changes a file: what is committed
# has to be what the generators make.
set -euo pipefail
cd "$(dirname "$0")/.."

# Changes that are not committed yet must not count, so the state before is
# the reference, not HEAD.
snapshot() {
  git ls-files --cached --others --exclude-standard -z |
    grep -zE '^(apis|config|bundle|deploy|operators|docs)/' |
    xargs -0 sha256sum 2>/dev/null | sort -k2
}

before=$(snapshot)
make --no-print-directory generate bundle charts
after=$(snapshot)

if [[ "$before" != "$after" ]]; then
  echo "verify: these files were not as 'make generate bundle charts' makes them; commit what it made:" >&2
  diff <(echo "$before") <(echo "$after") | sed -n 's/^[<>] [0-9a-f]*  /  /p' | sort -u >&2
  exit 1
fi
