#!/usr/bin/env bash
# Installs or removes the operator of a hub or of a member, or prints what apply
# would install.
#   operator.sh hub|spoke|hub-dedicated apply|delete|print
# IMAGE_NAME   the image
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/cluster.sh"

case ${1:-} in
  hub) name=cluster-manager container=registration-operator kind=clustermanagers group=operator.open-cluster-management.io clean=clean-hub-cr variable=HUB_CONTEXT ;;
  spoke) name=klusterlet container=klusterlet kind=klusterlets group=operator.open-cluster-management.io clean=clean-spoke-cr variable=SPOKE_CONTEXT ;;
  hub-dedicated) name=control-plane container=control-plane kind=controlplanes group=fleet.capstan.io clean=clean-hub-dedicated-cr variable=HUB_CONTEXT ;;
  *) fail "usage: operator.sh hub|spoke|hub-dedicated apply|delete|print" ;;
esac
[[ ${2:-} == print ]] || require_cluster "$1" "$variable"

manifests() {
  build "deploy/$1/operator" <<EOF
patches:
- patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: $name
      namespace: $OPERATOR_NAMESPACE
    spec:
      template:
        spec:
          containers:
          - name: $container
            image: $IMAGE_NAME
$(agent_image "$1")
EOF
}

# agent_image prints what tells the operator the image of what it installs, if
# that is one of Capstan's.
agent_image() {
  [[ $1 == hub-dedicated ]] || cat <<EOF
            env:
            - name: AGENT_IMAGE
              value: $IMAGE_NAME
EOF
}

apply() {
  say "installing the operator $name with image $IMAGE_NAME"
  local crd=customresourcedefinition/$kind.$group
  manifests "$1" | k apply --server-side --force-conflicts --field-manager=capstan-deploy -f -
  k wait "$crd" --for=condition=Established --timeout="${WAIT_SECONDS}s" >/dev/null
  wait_until_it_runs
}

# pull_seconds is how long the nodes may fail to pull the image: a registry may have
# to be asked twice.
pull_seconds=30

# wait_until_it_runs waits for the rollout. The kubelet never gives up an image that
# it cannot pull, so that is not waited for.
wait_until_it_runs() {
  local end=$((SECONDS + WAIT_SECONDS)) unpulled='' status
  echo "   waiting up to $WAIT_SECONDS s for deployment/$name"
  until status=$(k -n "$OPERATOR_NAMESPACE" rollout status "deployment/$name" --timeout=5s 2>/dev/null); do
    if cannot_pull; then
      unpulled=${unpulled:-$SECONDS}
      if ((SECONDS - unpulled >= pull_seconds)); then
        what_happened
        fail "the nodes cannot pull the image $IMAGE_NAME, see the events above. Push it to a registry that they reach, or load it:" \
          "'make image' writes bin/capstan-image.tar, and 'kind load image-archive bin/capstan-image.tar' brings it to the nodes of kind"
      fi
    else
      unpulled=''
    fi
    if ((SECONDS >= end)); then
      what_happened
      fail "the operator $name does not run, see the pods and events above"
    fi
  done
  tail -n 1 <<<"$status"
}

# cannot_pull reports whether a pod of the operator waits for its image in vain.
cannot_pull() {
  k -n "$OPERATOR_NAMESPACE" get pods -l "app=$name" -o jsonpath='{.items[*].status.containerStatuses[*].state.waiting.reason}' |
    grep -qwE 'ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull'
}

what_happened() {
  k -n "$OPERATOR_NAMESPACE" get pods -l "app=$name" >&2 || true
  k -n "$OPERATOR_NAMESPACE" get events --sort-by=.lastTimestamp 2>/dev/null | tail -5 >&2 || true
}

# Deleting the CRD while there are objects of it, with nobody left to clean up
# after them, would never end.
refuse_while_in_use() {
  local left
  left=$(k get "$kind.$group" -A -o name 2>/dev/null || true)
  [[ -z $left ]] || fail "there is still ${left//$'\n'/, }: run 'make $clean' first, so that the operator can clean up"
}

delete() {
  say "removing the operator $name"
  refuse_while_in_use
  # The operator ends first, while it may still do what ending takes.
  k -n "$OPERATOR_NAMESPACE" delete deployment "$name" --ignore-not-found --cascade=foreground --timeout="${WAIT_SECONDS}s"
  # The namespace may be home to other operators.
  manifests "$1" | without_namespaces | k delete --ignore-not-found --wait=false -f -
  wait_gone "customresourcedefinition/$kind.$group" 60
  if [[ $1 == spoke ]]; then
    delete_and_wait "namespace/$AGENT_NAMESPACE" 120
  fi
  local others
  others=$(other_operators)
  if [[ -n $others ]]; then
    echo "   the namespace $OPERATOR_NAMESPACE stays: the operator ${others//$'\n'/, } is in it"
  else
    delete_and_wait "namespace/$OPERATOR_NAMESPACE" 120
  fi
}

# other_operators prints the names of those that are in the namespace as well.
other_operators() {
  k -n "$OPERATOR_NAMESPACE" get deployment cluster-manager klusterlet control-plane --ignore-not-found \
    -o custom-columns=:.metadata.name --no-headers 2>/dev/null | grep -vx "$name" || true
}

# without_namespaces drops the documents of kind Namespace.
without_namespaces() {
  awk 'BEGIN { RS = "\n?---\n" } !/(^|\n)kind: Namespace(\n|$)/ { print "---"; print }'
}

case ${2:-} in
  apply) apply "$1" ;;
  delete) delete "$1" ;;
  print) manifests "$1" ;;
  *) fail "usage: operator.sh hub|spoke|hub-dedicated apply|delete|print" ;;
esac
