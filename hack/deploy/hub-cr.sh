#!/usr/bin/env bash
# Makes the cluster a hub, or makes it one no more.
#   hub-cr.sh apply|apply-hosted|delete|drain
# IMAGE_NAME                    the image of the hub's components
# CLUSTER_MANAGER_NAME          the name of the ClusterManager
# EXTERNAL_HUB_KUBECONFIG       the kubeconfig of a hosted hub; empty if the cluster itself is the hub
# HOSTED_WEBHOOK_ADDRESS        where a hosted hub reaches the cluster
# MANAGED_CLUSTER_NAME          the member to drain
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
require_cluster hub HUB_CONTEXT

# Deleting a ClusterManager ends when the works are gone from the members.
DELETE_SECONDS=150
DRAIN_SECONDS=60

: "${CLUSTER_MANAGER_NAME:=cluster-manager}"

# images prints the start of a patch of the ClusterManager.
images() {
  cat <<EOF
patches:
- target:
    kind: ClusterManager
  options:
    allowNameChange: true
  patch: |
    - {op: replace, path: /spec/registrationImagePullSpec, value: "$IMAGE_NAME"}
    - {op: replace, path: /spec/workImagePullSpec, value: "$IMAGE_NAME"}
    - {op: replace, path: /spec/placementImagePullSpec, value: "$IMAGE_NAME"}
    - {op: replace, path: /spec/addOnManagerImagePullSpec, value: "$IMAGE_NAME"}
EOF
}

# installed waits until the hub works whose pods are in the namespace.
installed() {
  wait_condition "clustermanager/$CLUSTER_MANAGER_NAME" Applied
  wait_condition "clustermanager/$CLUSTER_MANAGER_NAME" Progressing=False
  wait_condition "clustermanager/$CLUSTER_MANAGER_NAME" HubRegistrationDegraded=False
  k -n "$1" get deployments
}

apply() {
  say "making the cluster a hub (ClusterManager $CLUSTER_MANAGER_NAME)"
  images | build deploy/hub/instance | k apply --server-side --force-conflicts --field-manager=capstan-deploy -f -
  installed open-cluster-management-hub
}

# node_address prints the address of a node, for hubs that reach the nodes.
node_address() {
  k get nodes -o 'jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}' | cut -d' ' -f1
}

apply_hosted() {
  local address=${HOSTED_WEBHOOK_ADDRESS:-$(node_address)}
  [[ -n $address ]] || fail "the cluster has no node whose address the hub could reach: set HOSTED_WEBHOOK_ADDRESS to a name or an IPv4 address that leads to ports 30443 and 31443"
  say "making another cluster a hub from here (ClusterManager $CLUSTER_MANAGER_NAME, webhooks at $address)"
  {
    images
    cat <<EOF
    - {op: replace, path: /metadata/name, value: "$CLUSTER_MANAGER_NAME"}
    - {op: replace, path: /spec/deployOption/hosted/registrationWebhookConfiguration/address, value: "$address"}
    - {op: replace, path: /spec/deployOption/hosted/workWebhookConfiguration/address, value: "$address"}
- target:
    kind: Service
    name: registration-webhook-nodeport
  patch: |
    - {op: replace, path: /metadata/namespace, value: "$CLUSTER_MANAGER_NAME"}
    - {op: replace, path: /spec/selector/app, value: "$CLUSTER_MANAGER_NAME-registration-webhook"}
- target:
    kind: Service
    name: work-webhook-nodeport
  patch: |
    - {op: replace, path: /metadata/namespace, value: "$CLUSTER_MANAGER_NAME"}
    - {op: replace, path: /spec/selector/app, value: "$CLUSTER_MANAGER_NAME-work-webhook"}
EOF
  } | build deploy/hub/hosted | k apply --server-side --force-conflicts --field-manager=capstan-deploy -f -
  installed "$CLUSTER_MANAGER_NAME"
}

# on_hub runs kubectl on the hub, which is the cluster itself unless it is hosted.
on_hub() {
  if [[ -n ${EXTERNAL_HUB_KUBECONFIG:-} ]]; then
    "$KUBECTL" --kubeconfig "$EXTERNAL_HUB_KUBECONFIG" "$@"
  else
    k "$@"
  fi
}

delete() {
  say "removing the hub"
  members_leave "$DELETE_SECONDS" on_hub
  delete_and_wait "clustermanager/$CLUSTER_MANAGER_NAME" "$DELETE_SECONDS"
}

# While its agent still runs, a member takes off what the hub has delivered.
drain() {
  k get namespace "$MANAGED_CLUSTER_NAME" --ignore-not-found -o name 2>/dev/null | grep -q . || return 0
  k get crd manifestworks.work.open-cluster-management.io --ignore-not-found -o name | grep -q . || return 0
  say "taking what was delivered off the member $MANAGED_CLUSTER_NAME"
  k -n "$MANAGED_CLUSTER_NAME" delete manifestworks --all --timeout="${DRAIN_SECONDS}s" ||
    echo "   the ManifestWorks are still there after $DRAIN_SECONDS s; does the agent run?" >&2
}

case ${1:-} in
  drain) drain ;;
  apply) apply ;;
  apply-hosted) apply_hosted ;;
  delete)
    if k get crd clustermanagers.operator.open-cluster-management.io --ignore-not-found -o name | grep -q .; then delete; else
      say "the cluster is no hub; nothing to remove"
    fi
    ;;
  *) fail "usage: hub-cr.sh apply|apply-hosted|delete|drain" ;;
esac
