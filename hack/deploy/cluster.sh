# Sourced by the scripts of this directory: how to reach a cluster, and how to
# wait for it. None of them changes a file of the repository.
#
# KUBECTL      the kubectl to use
# KUBECONFIG   as for kubectl
# CONTEXT      the context of the cluster; empty for the current one
# KUSTOMIZE    the kustomize to use
# shellcheck shell=bash

: "${KUBECTL:=kubectl}" "${CONTEXT:=}" "${KUSTOMIZE:=go run -modfile=hack/tools/go.mod sigs.k8s.io/kustomize/kustomize/v5}"
: "${WAIT_SECONDS:=180}"

OPERATOR_NAMESPACE=open-cluster-management
# shellcheck disable=SC2034 # for those that source this
AGENT_NAMESPACE=open-cluster-management-agent
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { echo "== $*"; }

fail() {
  echo "error: $*" >&2
  exit 1
}

# k runs kubectl on the cluster.
k() { "$KUBECTL" ${CONTEXT:+--context "$CONTEXT"} "$@"; }

# kubeconfig_read says which file kubectl has read, and what is wrong with one
# that has no context.
kubeconfig_read() {
  local file=${KUBECONFIG:-$HOME/.kube/config} why="KUBECONFIG=${KUBECONFIG:-} was read"
  [[ -n ${KUBECONFIG:-} ]] || why="KUBECONFIG is not set, so $file was read"
  if [[ $file != *:* && ! -e $file ]]; then
    echo "$why, which does not exist"
  else
    echo "$why and has none"
  fi
}

# require_cluster ends with a clear message if the cluster cannot be reached.
require_cluster() {
  local what=$1 variable=$2 known answer
  command -v "$KUBECTL" >/dev/null ||
    fail "'$KUBECTL' is not there: install kubectl, or say where it is with KUBECTL=/path/to/kubectl"
  if [[ -n ${KUBECONFIG:-} && $KUBECONFIG != *:* && ! -f $KUBECONFIG ]]; then
    fail "there is no file KUBECONFIG=$KUBECONFIG"
  fi
  known=$("$KUBECTL" config get-contexts -o name)
  if [[ -z $known ]]; then
    fail "no context was found for the $what${CONTEXT:+ ($variable=$CONTEXT)}: $(kubeconfig_read). Set KUBECONFIG to a file that has one"
  fi
  if [[ -z $CONTEXT ]]; then
    "$KUBECTL" config current-context >/dev/null 2>&1 ||
      fail "no context is given for the $what and kubectl has no current one: set $variable to one of: ${known//$'\n'/ }"
  elif ! grep -qxF -- "$CONTEXT" <<<"$known"; then
    fail "there is no context $variable=$CONTEXT; there are: ${known//$'\n'/ }"
  fi
  answer=$(k version --request-timeout=10s 2>&1) ||
    fail "the $what (context '${CONTEXT:-$("$KUBECTL" config current-context)}') does not answer: ${answer##*$'\n'}"
}

# build prints the manifests of a directory with changes from standard input,
# which are appended to its kustomization.
build() {
  local directory=$1 work
  mkdir -p bin/deploy
  work=$(mktemp -d bin/deploy/XXXXXX)
  {
    printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- ../../../%s\n' "$directory"
    cat
  } >"$work/kustomization.yaml"
  $KUSTOMIZE build "$work" || {
    rm -rf "$work"
    fail "kustomize cannot build $directory"
  }
  rm -rf "$work"
}

# wait_condition waits until an object has a condition, and tells what the
# object says of itself if it does not get it. Further arguments are for kubectl,
# such as -n NAMESPACE; so are those of the functions below.
wait_condition() {
  local object=$1 condition=$2
  shift 2
  echo "   waiting up to ${WAIT_SECONDS} s for $condition of $object"
  k wait "$object" "$@" --for="condition=$condition" --timeout="${WAIT_SECONDS}s" >/dev/null && return
  echo "   conditions of $object:" >&2
  conditions "$object" "$@" >&2
  fail "$object did not become $condition in ${WAIT_SECONDS} s; 'kubectl describe $object${*:+ $*}' tells more"
}

# conditions prints the conditions of an object, one in a line.
conditions() {
  k get "$@" -o jsonpath='{range .status.conditions[*]}{"     "}{.type}={.status} {.reason}: {.message}{"\n"}{end}' || true
}

# wait_gone waits until an object is gone and says meanwhile, every ten
# seconds, what it waits for.
wait_gone() {
  local object=$1 limit=$2 start=$SECONDS
  shift 2
  while k get "$object" "$@" --ignore-not-found -o name | grep -q .; do
    if ((SECONDS - start >= limit)); then
      echo "   what $object says:" >&2
      conditions "$object" "$@" >&2
      k get "$object" "$@" -o jsonpath='{"     finalizers: "}{.metadata.finalizers}{"\n"}' >&2 || true
      fail "$object is still there after $limit s; it waits for what is named above"
    fi
    if (((SECONDS - start) % 10 == 0 && SECONDS > start)); then
      echo "   $object is being deleted, $((SECONDS - start)) s:"
      conditions "$object" "$@" | grep -E 'Deleting|Applied|Progressing' || true
    fi
    sleep 1
  done
}

# delete_and_wait deletes an object and waits until it is gone.
delete_and_wait() {
  local object=$1 limit=$2
  shift 2
  if ! k get "$object" "$@" --ignore-not-found -o name 2>/dev/null | grep -q .; then
    echo "   there is no $object"
    return
  fi
  # It may go by itself in between.
  k delete "$object" "$@" --ignore-not-found --wait=false
  wait_gone "$object" "$limit" "$@"
}

# members_leave deletes the clusters of a hub and waits until they have left, for
# as many seconds as it is told. The other arguments run kubectl on the hub.
members_leave() {
  local limit=$1 clusters cluster
  shift
  clusters=$("$@" get managedclusters -o name 2>/dev/null || true)
  [[ -n $clusters ]] || return 0
  echo "   these clusters leave the hub: ${clusters//$'\n'/ }"
  local end=$((SECONDS + limit))
  for cluster in $clusters; do "$@" delete --wait=false --ignore-not-found "$cluster"; done
  for cluster in $clusters; do
    "$@" wait --for=delete "$cluster" --timeout="$((end - SECONDS))s" >/dev/null ||
      fail "$cluster is still there; 'kubectl describe $cluster' on the hub shows what it is waiting for"
  done
}
