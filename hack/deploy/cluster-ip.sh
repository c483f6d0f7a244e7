#!/usr/bin/env bash
# Lets a member on the hub itself join: the address in the bootstrap kubeconfig
# becomes the one that pods of the hub reach the API server at.
# HUB_KUBECONFIG   the file
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
require_cluster hub HUB_CONTEXT
[[ -f ${HUB_KUBECONFIG:?} ]] || fail "there is no file HUB_KUBECONFIG=$HUB_KUBECONFIG: run 'make hub-kubeconfig' first"

address=$(k -n default get service kubernetes -o jsonpath='{.spec.clusterIP}')
port=$(k -n default get service kubernetes -o jsonpath='{.spec.ports[0].port}')
[[ $address != *:* ]] || address="[$address]"
# Pods know the API server by this CA, which may be another than that of the
# address from outside.
ca=$(k -n default get configmap kube-root-ca.crt -o jsonpath='{.data.ca\.crt}' | base64 -w0)
say "setting the hub's address in $HUB_KUBECONFIG to https://$address:$port"

umask 077
awk -v server="https://$address:$port" -v ca="$ca" '
  /^    (certificate-authority-data|tls-server-name|proxy-url):/ { next }
  /^    server:/ { print "    server: " server; print "    certificate-authority-data: " ca; next }
  { print }' "$HUB_KUBECONFIG" >"$HUB_KUBECONFIG.new"
mv "$HUB_KUBECONFIG.new" "$HUB_KUBECONFIG"
