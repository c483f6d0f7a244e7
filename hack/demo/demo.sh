#!/usr/bin/env bash
# From nothing to a hub with two joined clusters that run a workload: builds
# Capstan, starts three real clusters on this machine, lets the first one host a
# dedicated hub, one member join by an agent of its own (Pull) and one by the
# agent on the hub (Push), and delivers a Deployment to both. With HUB=shared the
# first cluster is itself the hub. A second run repairs and repeats.
set -euo pipefail
cd "$(dirname "$0")/../.."

DEMO_DIR=${DEMO_DIR:-/var/lib/capstan-demo}
IMAGE_NAME=${IMAGE_NAME:?set by make}
KIND=${HUB:-dedicated}
HUB=hub
HOST=host
PULL=member1
PUSH=member2
WAIT=${WAIT:-180s}

export KUBECONFIG=$DEMO_DIR/kubeconfig
lab() { test/lab/bin/lab --dir "$DEMO_DIR" "$@"; }
kubectl() { test/lab/bin/kubectl "$@"; }
capstan() { bin/capstan "$@"; }

started=$SECONDS
step() { printf '\n[%3d s] %s\n' $((SECONDS - started)) "$*"; }
fail() { printf '\ndemo: %s\n' "$*" >&2; exit 1; }

[[ $EUID -eq 0 ]] || fail "real clusters need root (network namespaces, containerd): run 'sudo make demo'"
case $KIND in
  dedicated) OTHER=$HUB ;;
  shared) OTHER=$HOST HOST=$HUB ;;
  *) fail "HUB=$KIND: want dedicated or shared" ;;
esac
[[ ! -e $DEMO_DIR/clusters/$OTHER ]] || fail "there is a demo of the other kind of hub: run 'make clean-demo' first"

step "Building the lab's Kubernetes (about 6 minutes the first time), Capstan's image and its command line"
make --no-print-directory lab-build image IMAGE_NAME="$IMAGE_NAME"

step "Starting the clusters $HOST, $PULL and $PUSH"
lab up --install-packages --name "$HOST" --name "$PULL" --name "$PUSH"
lab kubeconfig >"$KUBECONFIG"
chmod 600 "$KUBECONFIG"
lab load-image bin/capstan-image.tar

# What does not get on is explained.
trap 'echo; capstan doctor --context "$HUB" || true' ERR

if [[ $KIND == dedicated ]]; then
  step "Making a dedicated hub, hosted by $HOST"
  lab load-image test/lab/bin/kubernetes.tar --cluster "$HOST"
  capstan init --dedicated --name "$HUB" --context "$HOST" --image "$IMAGE_NAME" --timeout "$WAIT"
else
  step "Making $HUB a hub"
  capstan init --context "$HUB" --image "$IMAGE_NAME" --timeout "$WAIT"
fi

step "$PULL joins by an agent of its own, with a token that lets in this cluster and no other"
register=$(capstan token create --context "$HUB" --ttl 1h --cluster-name "$PULL" --auto-accept --print-register-command)
echo "$register"
read -ra arguments <<<"${register#*capstan }"
capstan "${arguments[@]}" --context "$PULL" --cluster-name "$PULL" --image "$IMAGE_NAME" --timeout "$WAIT"

step "$PUSH joins by the agent on the hub"
capstan join "$PUSH" --context "$HUB" --cluster-kubeconfig "$KUBECONFIG" --cluster-context "$PUSH" --timeout "$WAIT"

step "Delivering a Deployment to both by ManifestWorks on $HUB"
for member in "$PULL" "$PUSH"; do
  kubectl --context "$HUB" -n "$member" apply -f hack/demo/work.yaml
done
for member in "$PULL" "$PUSH"; do
  kubectl --context "$HUB" -n "$member" wait --for=condition=Available manifestwork/hello --timeout="$WAIT"
  kubectl --context "$member" -n hello rollout status deployment/hello --timeout="$WAIT"
done

if [[ $KIND == dedicated ]]; then
  step "A Deployment on the hub itself is a template, of which nobody makes pods"
  kubectl --context "$HUB" create deployment template --image=lab/hello:1 --replicas=2 --dry-run=client -o yaml |
    kubectl --context "$HUB" apply -f -
  kubectl --context "$HUB" get deployments,pods
fi
trap - ERR

step "Done. What there is:"
echo
if [[ $KIND == dedicated ]]; then
  kubectl --context "$HUB" get clusters -o wide # of Karmada's API
else
  capstan get clusters --context "$HUB" -o wide
fi
echo
capstan tree --context "$HUB"
echo
if [[ $KIND == dedicated ]]; then
  echo "On $HOST:"
  kubectl --context "$HOST" -n "$HUB-control-plane" get pods --no-headers
  kubectl --context "$HOST" -n "$HUB" get pods --no-headers
else
  kubectl --context "$HUB" -n open-cluster-management-hub get pods --no-headers
fi
for member in "$PULL" "$PUSH"; do
  echo "On $member:"
  kubectl --context "$member" get pods --no-headers -A | grep -v '^kube-system ' || true
done

cat <<TXT

Look around:
  export KUBECONFIG=$KUBECONFIG PATH=$PWD/bin:$PWD/test/lab/bin:\$PATH
  kubectl config use-context $HUB
  capstan get clusters
  capstan describe cluster $PUSH
  capstan doctor
  kubectl --context $PULL -n hello delete deployment hello   # it comes back at once
Clean up:
  make clean-demo
TXT
