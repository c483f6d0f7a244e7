// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestAClusterIsAcceptedOnlyByPermission(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	registrar := h.userClient(t, "registrar")
	acceptor := h.userClient(t, "acceptor")
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "accepted", Labels: map[string]string{"env": "prod"}}}
	c.Spec.Taints = []clusterv1.Taint{{Key: "k", Effect: clusterv1.TaintEffectNoSelect}}
	if err := registrar.Create(t.Context(), c); err != nil {
		t.Fatalf("registering a cluster: %v", err)
	}
	if !maps.Equal(c.Labels, map[string]string{"env": "prod", clusterv1.LabelClusterSet: clusterv1.DefaultClusterSet}) || len(c.Finalizers) != 0 {
		t.Errorf("got labels %v and finalizers %v, want those that were sent, the default set, and no finalizer before acceptance", c.Labels, c.Finalizers)
	}
	wantTaints := []clusterv1.Taint{
		{Key: "k", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.NewTime(now())},
		{Key: clusterv1.TaintUnreachable, Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.NewTime(now())},
	}
	if diff := cmp.Diff(wantTaints, c.Spec.Taints); diff != "" {
		t.Errorf("the taints of a cluster that nobody heard of yet (-want +got):\n%s", diff)
	}
	c.Spec.HubAcceptsClient = true
	refused(t, registrar.Update(t.Context(), c.DeepCopy()), apierrors.IsForbidden, `user "registrar" may not update managedclusters/accept`)
	if err := acceptor.Update(t.Context(), c); err != nil {
		t.Fatalf("accepting the cluster: %v", err)
	}
	if !slices.Contains(c.Finalizers, clusterv1.FinalizerAPIResourceCleanup) {
		t.Errorf("got finalizers %v after acceptance, want %s", c.Finalizers, clusterv1.FinalizerAPIResourceCleanup)
	}
	c.Spec.HubAcceptsClient = false
	if err := registrar.Update(t.Context(), c); err != nil {
		t.Errorf("refusing the cluster needs no permission, but: %v", err)
	}
	c.Labels[clusterv1.LabelClusterSet] = "other"
	refused(t, registrar.Update(t.Context(), c.DeepCopy()), apierrors.IsForbidden, `create managedclustersets/join.cluster.open-cluster-management.io "other"`)
	if err := admin.Update(t.Context(), c); err != nil {
		t.Errorf("moving the cluster to another set as administrator: %v", err)
	}
	refused(t, registrar.Create(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}),
		apierrors.IsBadRequest, "is reserved")
	refused(t, registrar.Create(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "a.b"}}),
		apierrors.IsBadRequest, "is not a valid name for its namespace")
	insecure := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "insecure"}}
	insecure.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "http://x"}}
	refused(t, registrar.Create(t.Context(), insecure), apierrors.IsBadRequest, `url "http://x" is invalid in client configs`)
	// Everything about a cluster must still work while it goes away.
	if err := registrar.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	c.Finalizers = nil
	if err := registrar.Update(t.Context(), c); err != nil {
		t.Errorf("removing the finalizers of a deleted cluster: %v", err)
	}
}

func TestASetIsBoundOnlyByPermission(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	registrar := h.userClient(t, "registrar")
	binding := func(name, set string) *clusterv1beta2.ManagedClusterSetBinding {
		return &clusterv1beta2.ManagedClusterSetBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set},
		}
	}
	refused(t, admin.Create(t.Context(), binding("a", "b")), apierrors.IsBadRequest, `named "a" but binds the set "b"`)
	refused(t, registrar.Create(t.Context(), binding("a", "a")), apierrors.IsForbidden, `create managedclustersets/bind.cluster.open-cluster-management.io "a"`)
	bound := binding("a", "a")
	if err := admin.Create(t.Context(), bound); err != nil {
		t.Fatalf("binding a set as administrator: %v", err)
	}
	bound.Labels = map[string]string{"a": "b"}
	if err := registrar.Update(t.Context(), bound); err != nil {
		t.Errorf("labelling a binding needs no permission, but: %v", err)
	}
}

func TestAWorkIsCompletedAndChecked(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	registrar := h.userClient(t, "registrar")
	manifest := func(name string, bytes int) workv1.Manifest {
		raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q},"data":{"x":%q}}`, name, strings.Repeat("x", bytes))
		return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}
	}
	newWork := func(namespace, name string, manifests ...workv1.Manifest) *workv1.ManifestWork {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		w.Spec.Workload.Manifests = manifests
		return w
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{clusterv1.LabelClusterName: "c1"}}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w := newWork("c1", "w", manifest("a", 1))
	if err := registrar.Create(t.Context(), w); err != nil {
		t.Fatalf("creating a work: %v", err)
	}
	if !slices.Contains(w.Finalizers, workv1.FinalizerManifestWorkCleanup) {
		t.Errorf("got finalizers %v, want %s", w.Finalizers, workv1.FinalizerManifestWorkCleanup)
	}
	elsewhere := newWork("default", "w", manifest("a", 1))
	if err := registrar.Create(t.Context(), elsewhere); err != nil || len(elsewhere.Finalizers) != 0 {
		t.Errorf("got %v and finalizers %v, want none in a namespace of no cluster, where nobody takes them off", err, elsewhere.Finalizers)
	}
	refused(t, registrar.Create(t.Context(), newWork("c1", "big", manifest("a", 600<<10))), apierrors.IsBadRequest, "exceeds the 512000 limit")
	refused(t, registrar.Create(t.Context(), newWork("c1", "empty")), apierrors.IsBadRequest, "spec.workload.manifests is empty")
	refused(t, registrar.Create(t.Context(), newWork("c1", "twice", manifest("a", 1), manifest("a", 2))), apierrors.IsBadRequest, "is already in manifests[0]")
	w.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "ns", Name: "sa"},
	}}
	refused(t, registrar.Update(t.Context(), w.DeepCopy()), apierrors.IsForbidden, `may not execute-as manifestworks.work.open-cluster-management.io "system:serviceaccount:ns:sa" in namespace "c1"`)
	if err := admin.Update(t.Context(), w); err != nil {
		t.Errorf("naming an executor as administrator: %v", err)
	}
	w.Finalizers = nil
	if err := registrar.Update(t.Context(), w); err != nil {
		t.Errorf("removing the finalizers of needs no permission, but: %v", err)
	}
}

// refused fails the test unless the error is of the kind and has the part.
func refused(t *testing.T, err error, kind func(error) bool, part string) {
	t.Helper()
	if err == nil || !kind(err) || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v (%s), want a refusal with %q", err, apierrors.ReasonForError(err), part)
	}
}
