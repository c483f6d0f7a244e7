#!/usr/bin/env bash
# Writes the kubeconfig that members join with: the address and CA of the hub's
# context, and a token of a ServiceAccount that may ask to join and no more.
# HUB_KUBECONFIG         the file
# BOOTSTRAP_TOKEN_TTL    how long the token is valid
# HUB_NAMESPACE          the namespace of the ServiceAccount; that of the operator if empty
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
require_cluster hub HUB_CONTEXT
: "${HUB_KUBECONFIG:?set HUB_KUBECONFIG to the file to write}" "${BOOTSTRAP_TOKEN_TTL:=24h}"
account=agent-registration-bootstrap namespace=${HUB_NAMESPACE:-$OPERATOR_NAMESPACE}

say "writing the bootstrap kubeconfig $HUB_KUBECONFIG (token of $namespace/$account, valid for $BOOTSTRAP_TOKEN_TTL)"
k -n "$namespace" wait "serviceaccount/$account" --for=create --timeout=60s >/dev/null ||
  fail "there is no ServiceAccount $namespace/$account, which the operator makes for a ClusterManager: run 'make deploy-hub' first"
token=$(k -n "$namespace" create token "$account" --duration="$BOOTSTRAP_TOKEN_TTL") ||
  fail "the hub makes no token for $namespace/$account"

field() { k config view --raw --minify --flatten -o "jsonpath={.clusters[0].cluster.$1}"; }
server=$(field server)
ca=$(field certificate-authority-data)
server_name=$(field tls-server-name)
proxy=$(field proxy-url)
[[ $(field insecure-skip-tls-verify) != true ]] ||
  fail "the hub's context does not verify the hub's certificate (insecure-skip-tls-verify); members have to: give the context a certificate authority"

umask 077
mkdir -p "$(dirname "$HUB_KUBECONFIG")"
{
  cat <<EOF
apiVersion: v1
kind: Config
clusters:
- name: hub
  cluster:
    server: $server
EOF
  if [[ -n $ca ]]; then echo "    certificate-authority-data: $ca"; fi
  if [[ -n $server_name ]]; then echo "    tls-server-name: $server_name"; fi
  if [[ -n $proxy ]]; then echo "    proxy-url: $proxy"; fi
  cat <<EOF
users:
- name: bootstrap
  user:
    token: $token
contexts:
- name: bootstrap
  context:
    cluster: hub
    user: bootstrap
current-context: bootstrap
EOF
} >"$HUB_KUBECONFIG.new"
mv "$HUB_KUBECONFIG.new" "$HUB_KUBECONFIG"
echo "   members reach the hub at $server; make deploy-spoke HUB_KUBECONFIG=$HUB_KUBECONFIG lets one join"
