// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// workController is the account that the configurations exempt: that of a hub
// without a name for its namespace.
const workController = "system:serviceaccount:open-cluster-management-hub:work-controller-sa"

// executedSpec is the spec of a work with an executor.
func executedSpec() workv1.ManifestWorkSpec {
	return workv1.ManifestWorkSpec{
		Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{
			Raw: []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`),
		}}}},
		Executor: &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
			Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "ns", Name: "sa"},
		}},
	}
}

func TestAReplicaSetExecutesOnlyByPermission(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	registrar := h.userClient(t, "registrar")
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
	refused(t, registrar.Create(t.Context(), set.DeepCopy()), apierrors.IsBadRequest, "spec.manifestWorkTemplate.workload.manifests is empty")
	set.Spec.ManifestWorkTemplate = executedSpec()
	refused(t, registrar.Create(t.Context(), set.DeepCopy()), apierrors.IsForbidden,
		`may not execute-as manifestworks.work.open-cluster-management.io "system:serviceaccount:ns:sa" in all namespaces`)
	if err := admin.Create(t.Context(), set); err != nil {
		t.Fatalf("an administrator may execute as anybody: %v", err)
	}
	set.Finalizers = []string{workv1alpha1.FinalizerManifestWorkCleanup}
	if err := registrar.Update(t.Context(), set); err != nil {
		t.Errorf("a finalizer needs no permission, but: %v", err)
	}
	set.Spec.PlacementRefs[0].Name = "q"
	refused(t, registrar.Update(t.Context(), set.DeepCopy()), apierrors.IsForbidden, "execute-as")
}

// TestAWorkOfTheWorkControllerIsExempt creates the work of a template as the work controller, and as
// somebody else.
func TestAWorkOfTheWorkControllerIsExempt(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	count := h.count
	registrar := h.userClient(t, "registrar")
	controller := h.userClient(t, workController)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "exempt", Labels: map[string]string{clusterv1.LabelClusterName: "exempt"}}}
	if err := h.admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	count.take()
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "exempt", Name: "of-a-set"}, Spec: executedSpec()}
	if err := controller.Create(t.Context(), work.DeepCopy()); err != nil {
		t.Errorf("the author of the template was asked already, but: %v", err)
	}
	if got := count.take(); len(got) > 0 {
		t.Errorf("calls for a work of the work controller: %v, want none", got)
	}
	work.Name = "of-a-user"
	refused(t, registrar.Create(t.Context(), work), apierrors.IsForbidden, "execute-as")
}
