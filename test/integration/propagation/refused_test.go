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
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// TestWhatAMemberRefuses has a member that refuses what it is sent, first for a
// quota, then for a version that it does not have. The other one goes on.
func TestWhatAMemberRefuses(t *testing.T) {
	w := newWorld(t, 1)
	w.create(
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "strict"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}},
		&fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "strict"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict", Labels: map[string]string{clusterv1.LabelClusterName: "strict"}}})
	web := deployment("web", 1)
	w.create(policy("web", policyv1alpha1.Placement{}), web)
	for _, why := range []string{
		`deployments.apps "web" is forbidden: exceeded quota: apps, requested: count/deployments.apps=1, used: 3, limited: 3`,
		`the server could not find the requested resource: the cluster does not serve apps/v1, kind Deployment`,
	} {
		w.refuses("strict", why)
		w.says("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, why)
		w.says("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, "1 of 2 clusters do not have the object as desired: strict.")
		w.health(web, "member1", workv1alpha2.ResourceHealthy)
	}
	go w.agent(w.Context(), "strict")
	w.scale(web, 2) // the agent speaks of the next generation
	w.on("web", map[string]int32{"member1": 2, "strict": 2})
}

// refuses has a cluster without an agent say why it does not apply what it was
// sent.
func (w world) refuses(cluster, why string) {
	w.Helper()
	w.eventually("cluster "+cluster+" refuses it", func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.InNamespace(cluster), client.HasLabels{karmadaworkv1alpha1.LabelPermanentID}); err != nil {
			return err
		}
		if len(works.Items) != 1 {
			return fmt.Errorf("it has been sent %d works", len(works.Items))
		}
		work := &works.Items[0]
		failed := metav1.Condition{
			Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionFalse, Reason: "AppliedManifestFailed", Message: "Failed to apply 1 of 1 manifests",
			ObservedGeneration: work.Generation, LastTransitionTime: metav1.Now(),
		}
		work.Status.Conditions = []metav1.Condition{failed}
		failed.ObservedGeneration, failed.Message = 0, why
		work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{Conditions: []metav1.Condition{failed}}}
		return w.Status().Update(w.Context(), work)
	})
}

// TestAMemberWithAQuota has the API server of a member refuse what it is sent, and its
// agent say so, until the quota goes. The other member goes on.
func TestAMemberWithAQuota(t *testing.T) {
	w := newWorldOfMembers(t, 2)
	w.start()
	strict, none := w.members["member2"], corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "apps"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	if err := strict.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none} // a member has no controller that counts
	if err := strict.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	const why = "exceeded quota: apps"
	w.eventually("the member knows of the quota", func() error {
		err := strict.Create(t.Context(), deployment("trial", 1), client.DryRunAll)
		switch {
		case err == nil:
			return errors.New("it takes more than the quota allows")
		case !strings.Contains(err.Error(), why):
			return err
		}
		return nil
	})
	web := deployment("web", 1)
	w.create(policy("web", policyv1alpha1.Placement{}), web)
	w.says("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, why)
	w.health(web, "member1", workv1alpha2.ResourceHealthy)
	w.has("member2")
	if err := strict.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	w.eventually("the member forgets the quota", func() error { return strict.Create(t.Context(), deployment("trial", 1), client.DryRunAll) })
	w.scale(web, 2) // the agent tries a new generation at once
	w.on("web", map[string]int32{"member1": 2, "member2": 2})
	w.become(declared{"Deployment/web": {"member1", "member2"}}, nil)
}

// TestReplicasThatFitNowhere asks for more replicas than the clusters have room for.
func TestReplicasThatFitNowhere(t *testing.T) {
	w := newWorld(t, 1)
	w.room("member1", "2")
	w.create(policy("web", aggregated()), deployment("large", 3))
	w.says("large-deployment", workv1alpha2.BindingConditionScheduled, workv1alpha2.BindingReasonUnschedulable, "available replicas 2 are not enough")
	w.create(deployment("small", 2))
	w.on("small", map[string]int32{"member1": 2})
}

// TestANameThatAnotherWorkHas has somebody's ManifestWork in the way, until it goes.
func TestANameThatAnotherWorkHas(t *testing.T) {
	w := newWorld(t, 2)
	name := deliver.WorkName("Deployment", metav1.NamespaceDefault, "web")
	other := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: name}}
	other.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "other"}}`),
	}}}
	web := deployment("web", 1)
	w.create(other, policy("web", policyv1alpha1.Placement{}), web)
	w.says("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed,
		fmt.Sprintf("cluster %q has another ManifestWork %q, which is not of this object", "member1", name))
	w.health(web, "member2", workv1alpha2.ResourceHealthy)
	if err := w.Delete(w.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.on("web", map[string]int32{"member1": 1, "member2": 1})
}

// TestReplicasThatFitArePlaced asks for more replicas than there is room for, and
// then lets those be placed that have room.
func TestReplicasThatFitArePlaced(t *testing.T) {
	w := newWorld(t, 1)
	w.room("member1", "2")
	web := policy("web", aggregated())
	w.create(web, deployment("large", 5))
	w.says("large-deployment", workv1alpha2.BindingConditionScheduled, workv1alpha2.BindingReasonUnschedulable, "available replicas 2 are not enough")
	w.change(web, func() { web.Annotations = map[string]string{fleetv1alpha1.AnnotationPartialPlacement: "true"} })
	w.says("large-deployment", workv1alpha2.BindingConditionScheduled, workv1alpha2.BindingReasonUnschedulable, "2 of 5 replicas are placed, and 3 wait")
	w.on("large", map[string]int32{"member1": 2})
	w.room("member1", "9") // what was just assigned counts as taken until it is reported
	w.on("large", map[string]int32{"member1": 5})
}

// room has a cluster say for how many pods it has room.
func (w world) room(cluster, pods string) {
	w.Helper()
	w.eventually(cluster+" has room for "+pods+" pods", func() error {
		connection := &fleetv1alpha1.ClusterConnection{}
		if err := w.Get(w.Context(), client.ObjectKey{Name: cluster}, connection); err != nil {
			return err
		}
		connection.Status.ResourceSummary = &fleetv1alpha1.ResourceSummary{Allocatable: fleetv1alpha1.ResourceList{"pods": resource.MustParse(pods)}}
		return w.Status().Update(w.Context(), connection)
	})
}

// aggregated divides replicas among as few clusters as have room.
func aggregated() policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceAggregated,
	}}
}
