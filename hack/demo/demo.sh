#!/usr/bin/env bash
# From nothing to a joined cluster that runs a workload: builds Capstan, starts
# two real clusters on this machine, installs both operators, registers the
# member, and delivers a Deployment to it. A second run repairs and repeats.
set -euo pipefail
cd "$(dirname "$0")/../.."

DEMO_DIR=${DEMO_DIR:-/var/lib/capstan-demo}
IMAGE_NAME=${IMAGE_NAME:?set by make}
HUB=hub
MEMBER=member1
WAIT=${WAIT:-180s}

export KUBECONFIG=$DEMO_DIR/kubeconfig
lab() { test/lab/bin/lab --dir "$DEMO_DIR" "$@"; }
hub() { test/lab/bin/kubectl --context "$HUB" "$@"; }
member() { test/lab/bin/kubectl --context "$MEMBER" "$@"; }

started=$SECONDS
step() { printf '\n[%3d s] %s\n' $((SECONDS - started)) "$*"; }
fail() { printf '\ndemo: %s\n' "$*" >&2; exit 1; }

# explain prints where a registration that does not get on stands.
explain() {
  echo
  echo "The Klusterlet on $MEMBER says:"
  member get klusterlet klusterlet -o \
    jsonpath='{range .status.conditions[*]}  {.type}={.status} {.reason}: {.message}{"\n"}{end}' || true
  member -n open-cluster-management-agent get pods || true
  hub -n open-cluster-management-hub get pods || true
}

[[ $EUID -eq 0 ]] || fail "real clusters need root (network namespaces, containerd): run 'sudo make demo'"

step "Building the lab's Kubernetes (about 6 minutes the first time) and Capstan's image"
make --no-print-directory lab-build image IMAGE_NAME="$IMAGE_NAME"

step "Starting the clusters $HUB and $MEMBER"
lab up --install-packages --name "$HUB" --name "$MEMBER"
lab kubeconfig >"$KUBECONFIG"
chmod 600 "$KUBECONFIG"
lab load-image bin/capstan-image.tar

deploy() {
  make --no-print-directory "$@" IMAGE_NAME="$IMAGE_NAME" KUBECTL="$PWD/test/lab/bin/kubectl" \
    HUB_CONTEXT="$HUB" SPOKE_CONTEXT="$MEMBER" MANAGED_CLUSTER_NAME="$MEMBER" \
    HUB_KUBECONFIG="$DEMO_DIR/hub-kubeconfig"
}

step "Installing the ClusterManager operator and the hub on $HUB"
deploy deploy-hub

step "Installing the Klusterlet operator and the agent on $MEMBER"
deploy deploy-spoke

step "Registering $MEMBER: its agent asked to join by a certificate signing request"
trap explain ERR
# pending lists the requests of the member that nobody has decided about.
pending() {
  hub get csr -l "open-cluster-management.io/cluster-name=$MEMBER" \
    -o go-template='{{range .items}}{{if not .status.conditions}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}'
}
joined() {
  [[ $(hub get managedcluster "$MEMBER" --ignore-not-found \
    -o jsonpath='{.status.conditions[?(@.type=="ManagedClusterJoined")].status}') == True ]]
}
until joined || [[ -n $(pending) ]]; do
  ((SECONDS - started < 900)) || { explain; fail "$MEMBER does not ask to join"; }
  sleep 1
done
for csr in $(pending); do
  hub certificate approve "$csr"
done
hub patch managedcluster "$MEMBER" --type merge -p '{"spec":{"hubAcceptsClient":true}}'
hub wait --for=condition=ManagedClusterJoined "managedcluster/$MEMBER" --timeout="$WAIT"
hub wait --for=condition=ManagedClusterConditionAvailable "managedcluster/$MEMBER" --timeout="$WAIT"

step "Delivering a Deployment to $MEMBER by a ManifestWork on $HUB"
hub apply -f hack/demo/work.yaml
hub -n "$MEMBER" wait --for=condition=Applied manifestwork/hello --timeout="$WAIT"
hub -n "$MEMBER" wait --for=condition=Available manifestwork/hello --timeout="$WAIT"
member -n hello rollout status deployment/hello --timeout="$WAIT"
trap - ERR

step "Done. What runs where:"
echo
echo "On $HUB:"
hub get managedclusters
echo
hub -n open-cluster-management get pods --no-headers
hub -n open-cluster-management-hub get pods --no-headers
echo
hub -n "$MEMBER" get manifestwork hello -o custom-columns=\
'WORK:.metadata.name,CLUSTER:.metadata.namespace,APPLIED:.status.conditions[?(@.type=="Applied")].status,AVAILABLE:.status.conditions[?(@.type=="Available")].status'
echo
echo "On $MEMBER:"
member -n open-cluster-management get pods --no-headers
member -n open-cluster-management-agent get pods --no-headers
member -n hello get pods --no-headers

cat <<TXT

Look around:
  export KUBECONFIG=$KUBECONFIG PATH=$PWD/test/lab/bin:\$PATH
  kubectl --context $HUB describe managedcluster $MEMBER
  kubectl --context $HUB -n $MEMBER describe manifestwork hello
  kubectl --context $MEMBER describe klusterlet klusterlet
  kubectl --context $MEMBER -n hello delete deployment hello   # it comes back at once
Clean up:
  make clean-demo
TXT
