// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

func TestReservedNamespace(t *testing.T) {
	clusters := view.NewFleet(
		view.Cluster{Name: "accepted", Accepted: true}, view.Cluster{Name: "was-accepted", Joined: true},
		view.Cluster{Name: "dialled", Mode: view.Push}, view.Cluster{Name: "asks", Mode: view.Pull})
	for namespace, want := range map[string]string{
		"default": "", "shop": "", "capstan": "", "kubernetes": "", "karmada": "", "my-open-cluster-management": "", "open-cluster-managementx": "",
		"asks":        "", // or whoever may ask could end what a tenant sends
		"kube-system": "it is for Kubernetes", "kube-node-lease": "it is for Kubernetes", "openshift-etcd": "it is for OpenShift",
		"karmada-system": "it is for the fleet's own components", "karmada-cluster": "it is for the fleet's own components",
		"karmada-es-member1": "it is for the fleet's own components", "open-cluster-management": "it is for the fleet's own components",
		"open-cluster-management-other-klusterlet": "it is for the fleet's own components", "capstan-cluster": "it is for the fleet's own components",
		"accepted": "it is that of the cluster accepted", "was-accepted": "it is that of the cluster was-accepted", "dialled": "it is that of the cluster dialled",
	} {
		if got := ReservedNamespace(namespace, clusters); got != want {
			t.Errorf("ReservedNamespace(%q) = %q, want %q", namespace, got, want)
		}
	}
}

func TestReserved(t *testing.T) {
	const rbac = "rbac.authorization.k8s.io"
	for name, c := range map[string]struct {
		kind   schema.GroupKind
		object metav1.ObjectMeta
		want   string
	}{
		"a workload":                {schema.GroupKind{Group: "apps", Kind: "Deployment"}, metav1.ObjectMeta{Namespace: "shop", Name: "system:web"}, ""},
		"in a namespace":            {schema.GroupKind{Kind: "ConfigMap"}, metav1.ObjectMeta{Namespace: "kube-system", Name: "a"}, "nothing of namespace kube-system is sent to clusters: it is for Kubernetes"},
		"of a cluster":              {schema.GroupKind{Kind: "Secret"}, metav1.ObjectMeta{Namespace: "member1", Name: "a"}, "nothing of namespace member1 is sent to clusters: it is that of the cluster member1"},
		"a kind":                    {schema.GroupKind{Kind: "Node"}, metav1.ObjectMeta{Name: "a"}, "Node is never sent to clusters: it is a machine of the hub"},
		"about a machine":           {schema.GroupKind{Group: "storage.k8s.io", Kind: "CSINode"}, metav1.ObjectMeta{Name: "a"}, "CSINode is never sent to clusters: it is a machine of the hub"},
		"a storage class":           {schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}, metav1.ObjectMeta{Name: "a"}, ""},
		"credentials":               {schema.GroupKind{Kind: "Secret"}, metav1.ObjectMeta{Namespace: "shop", Name: "cluster-connection"}, "Secret cluster-connection is never sent to clusters: it has the hub's credentials for a cluster"},
		"an impersonator's":         {schema.GroupKind{Kind: "Secret"}, metav1.ObjectMeta{Namespace: "shop", Name: "cluster-impersonator"}, "Secret cluster-impersonator is never sent to clusters: it has the hub's credentials for a cluster"},
		"a map of the name":         {schema.GroupKind{Kind: "ConfigMap"}, metav1.ObjectMeta{Namespace: "shop", Name: "cluster-connection"}, ""},
		"the authorities":           {schema.GroupKind{Kind: "ConfigMap"}, metav1.ObjectMeta{Namespace: "shop", Name: "kube-root-ca.crt"}, "ConfigMap kube-root-ca.crt is never sent to clusters: each cluster makes its own"},
		"the most powerful role":    {schema.GroupKind{Group: rbac, Kind: "ClusterRole"}, metav1.ObjectMeta{Name: "cluster-admin"}, "ClusterRole cluster-admin is never sent to clusters: each cluster has its own from Kubernetes"},
		"a role for all":            {schema.GroupKind{Group: rbac, Kind: "ClusterRole"}, metav1.ObjectMeta{Name: "view"}, "ClusterRole view is never sent to clusters: each cluster has its own from Kubernetes"},
		"a namespace's":             {schema.GroupKind{Group: rbac, Kind: "Role"}, metav1.ObjectMeta{Namespace: "shop", Name: "view"}, ""},
		"a binding to it":           {schema.GroupKind{Group: rbac, Kind: "ClusterRoleBinding"}, metav1.ObjectMeta{Name: "cluster-admin"}, "ClusterRoleBinding cluster-admin is never sent to clusters: each cluster has its own from Kubernetes"},
		"of the system":             {schema.GroupKind{Group: rbac, Kind: "RoleBinding"}, metav1.ObjectMeta{Namespace: "shop", Name: "system:deployers"}, "RoleBinding system:deployers is never sent to clusters: names that begin with system: are for those of Kubernetes"},
		"restored by Kubernetes":    {schema.GroupKind{Group: rbac, Kind: "ClusterRole"}, metav1.ObjectMeta{Name: "a", Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}}, "ClusterRole a is never sent to clusters: each cluster has its own from Kubernetes"},
		"a user's role":             {schema.GroupKind{Group: rbac, Kind: "ClusterRole"}, metav1.ObjectMeta{Name: "system"}, ""},
		"by which a leader is told": {schema.GroupKind{Kind: "ConfigMap"}, metav1.ObjectMeta{Namespace: "shop", Name: "a", Annotations: map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}}, "ConfigMap a is never sent to clusters: it says which replica leads on the hub"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ReservedReason(c.kind, &c.object, view.NewFleet(view.Cluster{Name: "member1", Accepted: true})); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
