// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TestNoClusterGetsTheCredentialsOfAnother sends all Secrets to all clusters, along with
// what others refer to, by policies and by bindings that somebody has written. What is in
// the namespace of a cluster stays on the hub.
func TestNoClusterGetsTheCredentialsOfAnother(t *testing.T) {
	w := newWorld(t, 2)
	const asks, own = "asks", "member1"
	needs := deployment("needs", 1)
	needs.Namespace, needs.Spec.Template.Spec.ServiceAccountName = own, ""
	needs.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}}}
	theirs := policy("theirs", policyv1alpha1.Placement{})
	theirs.Namespace, theirs.Spec.PropagateDeps = own, true
	keys := secret(own, "keys")
	w.create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: asks}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		keys, secret(own, fleetv1alpha1.DefaultSecretName), secret("shop", fleetv1alpha1.DefaultSecretName), secret("shop", "shown"), secret(asks, "asked"),
		needs, theirs, everywhere("secrets", "v1", "Secret"))
	written := bound(keys)
	written.Namespace, written.Spec.Clusters = own, []workv1alpha2.TargetCluster{{Name: "member2"}}
	w.create(written)

	w.sentOf("Secret", "asks/asked", "shop/shown")
	w.sentOf("Deployment")

	// A cluster asks, and is accepted, whose name is that of a namespace.
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: asks}}
	w.create(cluster, secret(asks, "meanwhile"))
	w.sentOf("Secret", "asks/asked", "asks/meanwhile", "shop/shown")
	w.change(cluster, func() { cluster.Spec.HubAcceptsClient = true })
	w.sentOf("Secret", "shop/shown")
	asked := secret(asks, "asked")
	w.eventually("the object has no marks of a policy", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(asked), asked); err != nil {
			return err
		}
		if len(asked.Labels)+len(asked.Annotations) > 0 {
			return fmt.Errorf("it has %v and %v", asked.Labels, asked.Annotations)
		}
		return nil
	})
	w.create(secret(asks, "later"), secret("shop", "last"))
	w.sentOf("Secret", "shop/last", "shop/shown")
}

// TestRolesOfKubernetesStay sends all roles. Those that each cluster has from Kubernetes
// are not among them, and the policy is told so.
func TestRolesOfKubernetesStay(t *testing.T) {
	w := newWorld(t, 1)
	boots := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "boots", Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}}}
	w.create(everywhere("roles", "rbac.authorization.k8s.io/v1", "ClusterRole"), boots,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	w.sentOf("ClusterRole", "/shop")
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// everywhere is a policy that sends all objects of a kind to all clusters.
func everywhere(name, apiVersion, kind string) *policyv1alpha1.ClusterPropagationPolicy {
	return &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1alpha1.PropagationSpec{
		ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: apiVersion, Kind: kind}},
	}}
}

// sentOf waits until these are the objects of a kind that member1 and member2 are sent
// together, as NAMESPACE/NAME in this order.
func (w world) sentOf(kind string, want ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("of kind %s clusters are sent %v", kind, want), func() error {
		var got []string
		for _, cluster := range []string{"member1", "member2"} {
			for _, work := range w.worksOf(cluster) {
				if object := w.object(&work); object.GetKind() == kind {
					got = append(got, object.GetNamespace()+"/"+object.GetName())
				}
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			return fmt.Errorf("they are sent [%s]", strings.Join(got, " "))
		}
		return nil
	})
}
