#!/usr/bin/env bash
# Makes the cluster a member, or makes it one no more.
#   spoke-cr.sh apply|delete
# MANAGED_CLUSTER_NAME   the name of the member on the hub
# KLUSTERLET_NAME        the name of the Klusterlet
# KLUSTERLET_MODE        Singleton or Default
# HOSTED                 not empty if the agents run on the cluster, and their member is another
# IMAGE_NAME             the image of the agents
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
require_cluster member SPOKE_CONTEXT
: "${KLUSTERLET_NAME:?}"
DELETE_SECONDS=150

apply() {
  [[ $KLUSTERLET_MODE == Singleton || $KLUSTERLET_MODE == Default ]] ||
    fail "KLUSTERLET_MODE=$KLUSTERLET_MODE: want Singleton (one agent) or Default (one agent for registration and one for work)"
  [[ $MANAGED_CLUSTER_NAME =~ ^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$ ]] ||
    fail "MANAGED_CLUSTER_NAME=$MANAGED_CLUSTER_NAME: the hub makes a namespace of this name, so it has to have at most 63 lower case letters, digits and hyphens"
  local mode=$KLUSTERLET_MODE namespace=$AGENT_NAMESPACE
  if [[ -n ${HOSTED:-} ]]; then
    if [[ $mode == Singleton ]]; then mode=SingletonHosted; else mode=Hosted; fi
    namespace=$KLUSTERLET_NAME
  fi
  say "letting the cluster join as $MANAGED_CLUSTER_NAME (Klusterlet $KLUSTERLET_NAME, mode $mode)"
  build deploy/spoke/instance <<EOF | k apply --server-side --force-conflicts --field-manager=capstan-deploy -f -
patches:
- target:
    kind: Klusterlet
  options:
    allowNameChange: true
  patch: |
    - {op: replace, path: /metadata/name, value: "$KLUSTERLET_NAME"}
    - {op: replace, path: /spec/deployOption/mode, value: "$mode"}
    - {op: replace, path: /spec/clusterName, value: "$MANAGED_CLUSTER_NAME"}
    - {op: replace, path: /spec/registrationImagePullSpec, value: "$IMAGE_NAME"}
    - {op: replace, path: /spec/workImagePullSpec, value: "$IMAGE_NAME"}
    - {op: replace, path: /spec/imagePullSpec, value: "$IMAGE_NAME"}
EOF
  wait_condition "klusterlet/$KLUSTERLET_NAME" Applied
  k -n "$namespace" get deployments
  cat <<EOF

The agent asks the hub to join now. On the hub, agree to it:
  kubectl get csr -l open-cluster-management.io/cluster-name=$MANAGED_CLUSTER_NAME
  kubectl certificate approve \$(kubectl get csr -l open-cluster-management.io/cluster-name=$MANAGED_CLUSTER_NAME -o name)
  kubectl patch managedcluster $MANAGED_CLUSTER_NAME --type=merge -p '{"spec":{"hubAcceptsClient":true}}'
and see it join:
  kubectl get managedcluster $MANAGED_CLUSTER_NAME
If it does not, the member knows why:
  kubectl get klusterlet $KLUSTERLET_NAME -o jsonpath='{range .status.conditions[*]}{.type}={.status} {.message}{"\n"}{end}'
EOF
}

delete() {
  if k get crd klusterlets.operator.open-cluster-management.io --ignore-not-found -o name | grep -q .; then
    say "letting the cluster leave its hub (Klusterlet $KLUSTERLET_NAME)"
    delete_and_wait "klusterlet/$KLUSTERLET_NAME" "$DELETE_SECONDS"
  else
    say "the cluster is no member; nothing to remove"
  fi
}

case ${1:-} in
  apply) apply ;;
  delete) delete ;;
  *) fail "usage: spoke-cr.sh apply|delete" ;;
esac
