// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what normally takes seconds. It only
	// decides how long a failure takes.
	patience = 3 * time.Minute
	// pause is how long it waits before it looks again.
	pause = time.Second
)

// way is one to install Capstan: scripts of a user in a clone of the repository,
// as docs/install.md has them.
type way struct {
	name string
	// hub makes the cluster a hub and writes $HUB_KUBECONFIG, with which member asks
	// to join; what is there may be changed then.
	hub, member, change string
	// leave removes the member, and clean the hub.
	leave, clean string
}

// ways are all but that of OLM, which test/olm has.
func ways() []way {
	return []way{
		{
			name: "Helm",
			hub: `# A former release, with another definition.
cp -r deploy/helm/cluster-manager $WORK/former
sed -i 's/the operator last/a former operator last/' $WORK/former/templates/definition.yaml
helm install cluster-manager $WORK/former --kube-context hub --set images.overrides.operatorImage=$IMAGE_NAME \
  --namespace open-cluster-management --create-namespace
kubectl --context hub wait clustermanager/cluster-manager --for=condition=Progressing=False --timeout=3m
capstan token create --context hub --print-kubeconfig > $HUB_KUBECONFIG`,
			member: `helm install klusterlet deploy/helm/klusterlet --kube-context member1 --set images.overrides.operatorImage=$IMAGE_NAME \
  --namespace open-cluster-management --create-namespace --set klusterlet.clusterName=member1 --set-file bootstrapHubKubeConfig=$HUB_KUBECONFIG`,
			change: `cat > $WORK/values.yaml <<'YAML'
replicaCount: 2
clusterManager:
  workConfiguration:
    featureGates: [{feature: ManifestWorkReplicaSet, mode: Enable}]
YAML
kubectl --context hub get crd clustermanagers.operator.open-cluster-management.io -o yaml | grep 'a former operator last' > /dev/null
helm upgrade cluster-manager deploy/helm/cluster-manager --kube-context hub --namespace open-cluster-management \
  --reset-then-reuse-values --values $WORK/values.yaml
kubectl --context hub get crd clustermanagers.operator.open-cluster-management.io -o yaml | grep 'the operator last' > /dev/null
kubectl --context hub -n open-cluster-management rollout status deployment/cluster-manager --timeout=3m
test "$(kubectl --context hub -n open-cluster-management get deployment cluster-manager -o 'jsonpath={.spec.replicas}')" = 2
kubectl --context hub -n open-cluster-management-hub wait deployment/cluster-manager-work-controller --for=create --timeout=3m
# A value that is not given again must not take the agents away.
helm upgrade klusterlet deploy/helm/klusterlet --kube-context member1 --namespace open-cluster-management \
  --set klusterlet.clusterName=member1 --set images.overrides.operatorImage=$IMAGE_NAME
kubectl --context member1 -n open-cluster-management-agent rollout status deployment/klusterlet-agent --timeout=3m`,
			leave: `kubectl --context hub delete managedcluster member1
helm uninstall klusterlet --kube-context member1 --namespace open-cluster-management
kubectl --context member1 delete namespace open-cluster-management`,
			clean: `helm uninstall cluster-manager --kube-context hub --namespace open-cluster-management
kubectl --context hub delete namespace open-cluster-management
kubectl --context hub -n kube-system delete secrets --field-selector type=bootstrap.kubernetes.io/token`,
		},
		{
			name: "install.yaml",
			hub: `sed "s|quay.io/capstan-io/capstan:0.1.0|$IMAGE_NAME|" deploy/install.yaml | kubectl --context hub apply --server-side -f -
kubectl --context hub wait crd/clustermanagers.operator.open-cluster-management.io --for=condition=Established
kubectl --context hub apply -f - <<EOF
apiVersion: operator.open-cluster-management.io/v1
kind: ClusterManager
metadata: {name: cluster-manager}
spec: {deployOption: {mode: Default}}
EOF
kubectl --context hub wait clustermanager/cluster-manager --for=condition=Progressing=False --timeout=3m
make hub-kubeconfig HUB_CONTEXT=hub HUB_KUBECONFIG=$HUB_KUBECONFIG`,
			member: `sed "s|quay.io/capstan-io/capstan:0.1.0|$IMAGE_NAME|" deploy/install-klusterlet.yaml | kubectl --context member1 apply --server-side -f -
kubectl --context member1 create namespace open-cluster-management-agent
kubectl --context member1 -n open-cluster-management-agent create secret generic bootstrap-hub-kubeconfig --from-file=kubeconfig=$HUB_KUBECONFIG
kubectl --context member1 wait crd/klusterlets.operator.open-cluster-management.io --for=condition=Established
kubectl --context member1 apply -f - <<EOF
apiVersion: operator.open-cluster-management.io/v1
kind: Klusterlet
metadata: {name: klusterlet}
spec: {clusterName: member1, deployOption: {mode: Singleton}}
EOF`,
			leave: `kubectl --context hub delete managedcluster member1
kubectl --context member1 delete klusterlet klusterlet
kubectl --context member1 delete -f deploy/install-klusterlet.yaml`,
			clean: `kubectl --context hub delete clustermanager cluster-manager
kubectl --context hub delete -f deploy/install.yaml`,
		},
		{
			name: "CLI",
			hub: `capstan init --context hub --image $IMAGE_NAME
capstan token create --context hub --print-register-command > $WORK/register`,
			member: `$(cat $WORK/register) --cluster-name member1 --context member1 --wait=false`,
			leave:  `capstan unregister member1 --context hub --cluster-kubeconfig $KUBECONFIG --cluster-context member1`,
			clean:  `capstan clean --context hub --cluster-namespaces`,
		},
		{
			name:   "make",
			hub:    `make deploy-hub HUB_CONTEXT=hub HUB_KUBECONFIG=$HUB_KUBECONFIG`,
			member: `make deploy-spoke SPOKE_CONTEXT=member1 MANAGED_CLUSTER_NAME=member1 HUB_KUBECONFIG=$HUB_KUBECONFIG`,
			leave: `kubectl --context hub delete managedcluster member1
make clean-spoke SPOKE_CONTEXT=member1`,
			clean: `make clean-hub HUB_CONTEXT=hub`,
		},
	}
}

// deliver sends a ConfigMap to the member, and check waits until it is there.
const (
	deliver = `kubectl --context hub apply -f - <<'YAML'
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: hello, namespace: member1}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: Namespace, metadata: {name: hello}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: hello}, data: {text: hello}}
YAML
kubectl --context hub -n member1 wait --for=condition=Applied manifestwork/hello --timeout=3m
kubectl --context member1 -n hello get configmap hello`
	// mend proves that the agent still works: it restores what somebody deletes.
	mend = `kubectl --context member1 -n hello delete configmap hello
kubectl --context member1 -n hello wait configmap/hello --for=create --timeout=3m`
	// stays is what an operator leaves because others may need it: the namespace of
	// a cluster on its hub, and the definitions on a member.
	stays = `kubectl --context hub delete namespace member1 --ignore-not-found
kubectl --context member1 delete --ignore-not-found crd \
  appliedmanifestworks.work.open-cluster-management.io clusterclaims.cluster.open-cluster-management.io`
)

// TestInstallPaths takes the two clusters from nothing to a delivered work and back
// to nothing, in each way.
func TestInstallPaths(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			diagnose(t)
			before := map[string][]string{hub: objects(t, hub), member: objects(t, member)}
			work := t.TempDir()
			for _, step := range []struct{ name, script string }{
				{"hub", w.hub},
				{"member", w.member},
				{"accept", "capstan accept member1 --context hub --wait"},
				{"deliver", deliver},
				{"change", w.change},
				{"mend", mend},
				{"leave", w.leave},
				{"clean", w.clean},
				{"what stays", stays},
			} {
				if step.script == "" {
					continue
				}
				start := time.Now()
				out, err := theLab.shell(t.Context(), work, step.script)
				if err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				t.Logf("%s: %s\n%s", step.name, time.Since(start).Round(time.Second), out)
			}
			for cluster, objects := range before {
				nothingElse(t, cluster, objects)
			}
		})
	}
}

// objects returns the objects of all kinds of a cluster, except for those that
// come and go by themselves.
func objects(t *testing.T, cluster string) []string {
	t.Helper()
	out, err := theLab.shell(t.Context(), "", fmt.Sprintf(`kinds=$(kubectl --context %[1]s api-resources --verbs=list -o name | sort -u | paste -sd,)
kubectl --context %[1]s get "$kinds" -A --ignore-not-found --no-headers -o custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name 2>/dev/null | sort -u`, cluster))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		// Kubernetes deletes Events and requests for certificates after an hour, and the
		// kubelet makes the Lease of its node when it gets to it.
		if len(fields) == 3 && fields[0] != "Event" && fields[0] != "CertificateSigningRequest" && fields[1] != "kube-node-lease" {
			all = append(all, strings.Join(fields, " "))
		}
	}
	return all
}

// nothingElse waits until a cluster has the objects that it had before.
func nothingElse(t *testing.T, cluster string, before []string) {
	t.Helper()
	var left, missing []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		now := objects(t, cluster)
		left = slices.DeleteFunc(slices.Clone(now), func(o string) bool { return slices.Contains(before, o) })
		missing = slices.DeleteFunc(slices.Clone(before), func(o string) bool { return slices.Contains(now, o) })
		if len(left)+len(missing) == 0 {
			t.Logf("%s has its %d objects from before, and no other", cluster, len(before))
			return
		}
	}
	t.Errorf("%s has %q left, and lacks %q", cluster, left, missing)
}

// diagnose logs what a person would look at first, if the test failed.
func diagnose(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, cluster := range []string{hub, member} {
			out, err := theLab.shell(context.WithoutCancel(t.Context()), "", fmt.Sprintf(`k() { kubectl --context %s "$@" || true; }
k get managedclusters,klusterlets,clustermanagers,csr -o wide; k get pods,jobs -A -o wide; k get events -A --sort-by=.lastTimestamp | tail -40
k describe klusterlets,clustermanagers,managedclusters; k -n open-cluster-management logs -l app.kubernetes.io/part-of=capstan --tail=40 --prefix
k -n open-cluster-management logs -l app=cluster-manager --tail=40; k -n open-cluster-management logs -l app=klusterlet --tail=40`, cluster))
			t.Logf("--- %s: %v\n%s", cluster, err, out)
		}
	})
}
