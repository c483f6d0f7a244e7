// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestWhatAMemberRefuses has a member that refuses what it is sent, first for a
// quota, then for a version that it does not have. The other one goes on.
func TestWhatAMemberRefuses(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.CreateAll(
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "strict"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}},
		&fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "strict"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict", Labels: map[string]string{clusterv1.LabelClusterName: "strict"}}})
	web := harness.Deployment("web", 1)
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}), web)
	for _, why := range []string{
		`deployments.apps "web" is forbidden: exceeded quota: apps, requested: count/deployments.apps=1, used: 3, limited: 3`,
		`the server could not find the requested resource: the cluster does not serve apps/v1, kind Deployment`,
	} {
		w.RefuseAs("strict", why)
		w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, why)
		w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, "1 of 2 clusters do not have the object as desired: strict.")
		w.HasHealth(web, "member1", workv1alpha2.ResourceHealthy)
	}
	go w.Agent(w.Context(), "strict")
	w.ScaleDeployment(web, 2) // the agent speaks of the next generation
	w.RunsOn("web", map[string]int32{"member1": 2, "strict": 2})
}

// TestAMemberWithAQuota has the API server of a member refuse what it is sent, and its
// agent say so, until the quota goes. The other member goes on.
func TestAMemberWithAQuota(t *testing.T) {
	w := harness.NewWorldOfMembers(t, servers, 2)
	w.StartControllers()
	strict, none := w.Members["member2"], corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "apps"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	if err := strict.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none} // a member has no controller that counts
	if err := strict.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	const why = "exceeded quota: apps"
	w.Eventually("the member knows of the quota", func() error {
		err := strict.Create(t.Context(), harness.Deployment("trial", 1), client.DryRunAll)
		switch {
		case err == nil:
			return errors.New("it takes more than the quota allows")
		case !strings.Contains(err.Error(), why):
			return err
		}
		return nil
	})
	web := harness.Deployment("web", 1)
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}), web)
	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, why)
	w.HasHealth(web, "member1", workv1alpha2.ResourceHealthy)
	w.MemberHas("member2")
	if err := strict.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the member forgets the quota", func() error { return strict.Create(t.Context(), harness.Deployment("trial", 1), client.DryRunAll) })
	w.ScaleDeployment(web, 2) // the agent tries a new generation at once
	w.RunsOn("web", map[string]int32{"member1": 2, "member2": 2})
	w.BecomesDeclared(harness.Declared{"Deployment/web": {"member1", "member2"}}, nil)
}

// TestReplicasThatFitNowhere asks for more replicas than the clusters have room for.
func TestReplicasThatFitNowhere(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.ReportRoom("member1", "2")
	w.CreateAll(harness.Policy("web", aggregated()), harness.Deployment("large", 3))
	w.BindingSays("large-deployment", workv1alpha2.BindingConditionScheduled, workv1alpha2.BindingReasonUnschedulable, "available replicas 2 are not enough")
	w.CreateAll(harness.Deployment("small", 2))
	w.RunsOn("small", map[string]int32{"member1": 2})
}

// TestANameThatAnotherWorkHas has somebody's ManifestWork in the way, until it goes.
func TestANameThatAnotherWorkHas(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	name := deliver.WorkName("Deployment", metav1.NamespaceDefault, "web")
	other := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: name}}
	other.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "other"}}`),
	}}}
	web := harness.Deployment("web", 1)
	w.CreateAll(other, harness.Policy("web", policyv1alpha1.Placement{}), web)
	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		fmt.Sprintf("cluster %q has another ManifestWork %q, which is not of this object", "member1", name))
	w.HasHealth(web, "member2", workv1alpha2.ResourceHealthy)
	if err := w.Delete(w.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.RunsOn("web", map[string]int32{"member1": 1, "member2": 1})
}

// TestReplicasThatFitArePlaced asks for more replicas than there is room for, and
// then lets those be placed that have room.
func TestReplicasThatFitArePlaced(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.ReportRoom("member1", "2")
	web := harness.Policy("web", aggregated())
	w.CreateAll(web, harness.Deployment("large", 5))
	w.BindingSays("large-deployment", workv1alpha2.BindingConditionScheduled, workv1alpha2.BindingReasonUnschedulable, "available replicas 2 are not enough")
	w.ChangeObject(web, func() { web.Annotations = map[string]string{fleetv1alpha1.AnnotationPartialPlacement: "true"} })
	w.BindingSays("large-deployment", workv1alpha2.BindingConditionScheduled, workv1alpha2.BindingReasonUnschedulable, "2 of 5 replicas are placed, and 3 wait")
	w.RunsOn("large", map[string]int32{"member1": 2})
	w.ReportRoom("member1", "9") // what was just assigned counts as taken until it is reported
	w.RunsOn("large", map[string]int32{"member1": 5})
}

// aggregated divides replicas among as few clusters as have room.
func aggregated() policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceAggregated,
	}}
}
