#!/usr/bin/env bash
# Generates everything in a copy of the tree and fails if a file differs there: what
# is committed has to be what the generators make. The tree itself stays as it is, as
# others build from it meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=bin/verify
rm -rf "$copy"
mkdir -p "$copy"
# Changes that are not committed yet count; files that are gone do not.
git ls-files --cached --others --exclude-standard -z |
  tar --create --null --ignore-failed-read --files-from=- 2>/dev/null | tar --extract --directory="$copy"
make --no-print-directory -C "$copy" generate bundle charts

wrong=0
for folder in apis config bundle deploy docs internal operators; do
  diff --recursive --brief "$folder" "$copy/$folder" || wrong=1
done
rm -rf "$copy"
if ((wrong)); then
  echo "verify: these files are not as 'make generate bundle charts' makes them: run it, and commit what it makes" >&2
  exit 1
fi
