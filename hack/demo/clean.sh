#!/usr/bin/env bash
# Removes everything that the demo made: clusters, files, nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."

DEMO_DIR=${DEMO_DIR:-/var/lib/capstan-demo}
[[ $EUID -eq 0 ]] || { echo "clean-demo: the demo ran as root, so this has to: run 'sudo make clean-demo'" >&2; exit 1; }
if [[ ! -x test/lab/bin/lab ]]; then
  make --no-print-directory -C test/lab bin/lab
fi
test/lab/bin/lab --dir "$DEMO_DIR" down
rm -f "$DEMO_DIR/kubeconfig" "$DEMO_DIR/hub-kubeconfig"
rmdir "$DEMO_DIR" 2>/dev/null || true
test/lab/bin/lab --dir "$DEMO_DIR" leftovers
echo "clean-demo: nothing of the demo is left"
