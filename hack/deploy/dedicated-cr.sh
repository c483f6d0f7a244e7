#!/usr/bin/env bash
# Makes a dedicated hub on the cluster, its host, or removes it.
#   dedicated-cr.sh apply|kubeconfig|delete
# DEDICATED_HUB_KUBECONFIG   the file for the kubeconfig of the hub's administrator
# DELETE_DATA                yes deletes what the hub has stored, too
# FORCE                      yes removes a hub that does not answer, so that its members cannot leave
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/cluster.sh"
require_cluster host HUB_CONTEXT
DELETE_SECONDS=300
NAME=hub
NAMESPACE=$NAME-control-plane

apply() {
  say "making a dedicated hub (ControlPlane $NAMESPACE/$NAME, ClusterManager $NAME)"
  build deploy/hub-dedicated/instance </dev/null | k apply --server-side --force-conflicts --field-manager=capstan-deploy -f -
  wait_condition "controlplane/$NAME" Available -n "$NAMESPACE"
  wait_condition "controlplane/$NAME" KubeconfigReady -n "$NAMESPACE"
  wait_condition "clustermanager/$NAME" Applied
  wait_condition "clustermanager/$NAME" Progressing=False
  wait_condition "clustermanager/$NAME" HubRegistrationDegraded=False
  k -n "$NAMESPACE" get pods
  k -n "$NAME" get deployments
}

# kubeconfig writes that of the administrator, with the address for those outside
# of the host.
kubeconfig() {
  : "${DEDICATED_HUB_KUBECONFIG:?set DEDICATED_HUB_KUBECONFIG to the file to write}"
  say "writing the kubeconfig of the hub $DEDICATED_HUB_KUBECONFIG"
  mkdir -p "$(dirname "$DEDICATED_HUB_KUBECONFIG")"
  write_kubeconfig "$DEDICATED_HUB_KUBECONFIG.new"
  mv "$DEDICATED_HUB_KUBECONFIG.new" "$DEDICATED_HUB_KUBECONFIG"
}

write_kubeconfig() {
  local endpoint cluster
  endpoint=$(k -n "$NAMESPACE" get controlplane "$NAME" -o jsonpath='{.status.endpoint}')
  [[ -n $endpoint ]] || fail "the control plane $NAMESPACE/$NAME has no endpoint yet; 'kubectl -n $NAMESPACE describe controlplane $NAME' tells why"
  (umask 077 && k -n "$NAME" get secret external-hub-kubeconfig -o jsonpath='{.data.kubeconfig}' | base64 -d >"$1") || return
  cluster=$("$KUBECTL" --kubeconfig "$1" config view --minify -o jsonpath='{.clusters[0].name}') || return
  "$KUBECTL" --kubeconfig "$1" config set-cluster "$cluster" --server="$endpoint" >/dev/null
}

# leave lets the members leave, for whom nobody would clean up without the hub.
leave() {
  local work answer
  mkdir -p bin/deploy
  work=$(mktemp -d bin/deploy/XXXXXX)
  # shellcheck disable=SC2064 # the directory is known now
  trap "rm -rf '$work'" EXIT
  if answer=$(write_kubeconfig "$work/kubeconfig" 2>&1) && answer=$("$KUBECTL" --kubeconfig "$work/kubeconfig" --request-timeout=10s get --raw /readyz 2>&1); then
    members_leave "$DELETE_SECONDS" "$KUBECTL" --kubeconfig "$work/kubeconfig"
  elif [[ ${FORCE:-} == yes ]]; then
    echo "   the hub does not answer, so its members keep what was delivered to them" >&2
  else
    fail "the hub does not answer, so its members cannot leave: repair it, or remove it all the same with FORCE=yes: ${answer##*$'\n'}"
  fi
}

delete() {
  say "removing the dedicated hub $NAME"
  if k get crd clustermanagers.operator.open-cluster-management.io --ignore-not-found -o name | grep -q .; then
    ! k get clustermanager "$NAME" --ignore-not-found -o name | grep -q . || leave
    delete_and_wait "clustermanager/$NAME" "$DELETE_SECONDS"
  fi
  if k get crd controlplanes.fleet.capstan.io --ignore-not-found -o name | grep -q . &&
    k -n "$NAMESPACE" get controlplane "$NAME" --ignore-not-found -o name | grep -q .; then
    if [[ ${DELETE_DATA:-} == yes ]]; then
      k -n "$NAMESPACE" patch controlplane "$NAME" --type=merge -p '{"spec":{"etcd":{"managed":{"deletionPolicy":"Delete"}}}}'
    fi
    delete_and_wait "controlplane/$NAME" "$DELETE_SECONDS" -n "$NAMESPACE"
  fi
  delete_and_wait "namespace/$NAME" "$DELETE_SECONDS"
  if [[ ${DELETE_DATA:-} == yes ]]; then
    delete_and_wait "namespace/$NAMESPACE" "$DELETE_SECONDS"
  else
    echo "   what the hub has stored stays in the namespace $NAMESPACE; DELETE_DATA=yes deletes it, too"
  fi
}

case ${1:-} in
  apply) apply ;;
  kubeconfig) kubeconfig ;;
  delete) delete ;;
  *) fail "usage: dedicated-cr.sh apply|kubeconfig|delete" ;;
esac
