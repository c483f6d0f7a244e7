#!/usr/bin/env bash
# Makes the cluster a hub, or makes it one no more.
#   hub-cr.sh apply|delete|drain
# IMAGE_NAME             the image of the hub's components
# MANAGED_CLUSTER_NAME   the member to drain
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
require_cluster hub HUB_CONTEXT

# Deleting a ClusterManager ends when the works are gone from the members.
DELETE_SECONDS=150
DRAIN_SECONDS=60

apply() {
  say "making the cluster a hub (ClusterManager cluster-manager)"
  build deploy/hub/instance <<EOF | k apply --server-side --force-conflicts --field-manager=capstan-deploy -f -
patches:
- target:
    kind: ClusterManager
  patch: |
    - {op: replace, path: /spec/registrationImagePullSpec, value: "$IMAGE_NAME"}
    - {op: replace, path: /spec/workImagePullSpec, value: "$IMAGE_NAME"}
    - {op: replace, path: /spec/placementImagePullSpec, value: "$IMAGE_NAME"}
    - {op: replace, path: /spec/addOnManagerImagePullSpec, value: "$IMAGE_NAME"}
EOF
  wait_condition clustermanager/cluster-manager Applied
  wait_condition clustermanager/cluster-manager Progressing=False
  wait_condition clustermanager/cluster-manager HubRegistrationDegraded=False
  k -n open-cluster-management-hub get deployments
}

delete() {
  say "removing the hub"
  local clusters
  clusters=$(k get managedclusters -o name 2>/dev/null || true)
  if [[ -n $clusters ]]; then
    echo "   these clusters leave the hub: ${clusters//$'\n'/ }"
    xargs -r "$KUBECTL" ${CONTEXT:+--context "$CONTEXT"} delete --wait=false --ignore-not-found <<<"$clusters"
    local cluster end=$((SECONDS + DELETE_SECONDS))
    for cluster in $clusters; do wait_gone "$cluster" $((end - SECONDS)); done
  fi
  delete_and_wait clustermanager/cluster-manager "$DELETE_SECONDS"
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
  delete)
    if k get crd clustermanagers.operator.open-cluster-management.io --ignore-not-found -o name | grep -q .; then delete; else
      say "the cluster is no hub; nothing to remove"
    fi
    ;;
  *) fail "usage: hub-cr.sh apply|delete|drain" ;;
esac
