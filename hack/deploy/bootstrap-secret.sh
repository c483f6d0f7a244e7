#!/usr/bin/env bash
# Puts the bootstrap kubeconfig onto the member, where its agent looks for it.
# HUB_KUBECONFIG   the file
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
require_cluster member SPOKE_CONTEXT
[[ -f ${HUB_KUBECONFIG:?} ]] ||
  fail "there is no file HUB_KUBECONFIG=$HUB_KUBECONFIG: run 'make hub-kubeconfig' for the hub, or say where its bootstrap kubeconfig is"
server=$("$KUBECTL" --kubeconfig "$HUB_KUBECONFIG" config view --minify -o 'jsonpath={.clusters[0].cluster.server}') ||
  fail "HUB_KUBECONFIG=$HUB_KUBECONFIG is not a kubeconfig with a current context"

say "putting $HUB_KUBECONFIG (hub $server) into the secret $AGENT_NAMESPACE/bootstrap-hub-kubeconfig"
umask 077
mkdir -p bin/deploy
work=$(mktemp -d bin/deploy/XXXXXX)
trap 'rm -rf "$work"' EXIT
cp config/samples/bootstrap-secret/*.yaml "$work"
cp "$HUB_KUBECONFIG" "$work/hub-kubeconfig"
$KUSTOMIZE build "$work" | k apply --server-side --force-conflicts --field-manager=capstan-deploy -f -
