// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/rebalance"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// byRoom divides replicas by the room of clusters.
func byRoom() policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
		WeightPreference: &policyv1alpha1.ClusterPreferences{DynamicWeight: policyv1alpha1.DynamicWeightByAvailableReplicas},
	}}
}

// TestARebalancerMovesReplicasToANewCluster has a cluster come that is not used
// until somebody asks for it, and the rebalancer go when all is said.
func TestARebalancerMovesReplicasToANewCluster(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	w.CreateAll(harness.Policy("all", byRoom()), harness.Deployment("web", 6))
	w.RunsOn("web", map[string]int32{"member1": 3, "member2": 3})
	w.JoinCluster("member3")
	w.PassSecond("web")
	w.RunsOn("web", map[string]int32{"member1": 3, "member2": 3})

	r := createRebalancer(w, "now", nil, "web", "none")
	w.RunsOn("web", map[string]int32{"member1": 2, "member2": 2, "member3": 2})
	w.Eventually("rebalancer "+r.Name+" has finished", func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if r.Status.FinishTime == nil || r.Status.ObservedGeneration != r.Generation {
			return errors.New("it has not")
		}
		return nil
	})
	// They are in the order of their names.
	if got := r.Status.ObservedWorkloads; len(got) != 2 || got[1].Workload.Name != "web" || got[1].Result != appsv1alpha1.RebalanceSuccessful ||
		got[0].Workload.Name != "none" || got[0].Reason != appsv1alpha1.ReferencedBindingNotFound || got[0].Result != appsv1alpha1.RebalanceFailed {
		t.Errorf("the result is %+v", got)
	}
	binding := &workv1alpha2.ResourceBinding{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}, binding); err != nil {
		t.Fatal(err)
	}
	if !binding.Spec.RescheduleTriggeredAt.Equal(&r.CreationTimestamp) {
		t.Errorf("the binding was asked for at %v, and the rebalancer created at %v", binding.Spec.RescheduleTriggeredAt, r.CreationTimestamp)
	}

	w.IsGone(createRebalancer(w, "once", new(int32(0)), "web"))
}

// TestARebalancerStartsFromTheFirstAffinity has an object that went to the second
// group of clusters go to the first one when that has some.
func TestARebalancerStartsFromTheFirstAffinity(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	group := func(name, cluster string) policyv1alpha1.ClusterAffinityTerm {
		return policyv1alpha1.ClusterAffinityTerm{AffinityName: name, ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: []string{cluster}}}
	}
	w.CreateAll(harness.Policy("all", policyv1alpha1.Placement{ClusterAffinities: []policyv1alpha1.ClusterAffinityTerm{group("best", "member3"), group("other", "member2")}}), harness.Deployment("web", 2))
	w.RunsOn("web", map[string]int32{"member2": 2})
	w.JoinCluster("member3")
	w.PassSecond("web")
	w.RunsOn("web", map[string]int32{"member2": 2})
	createRebalancer(w, "now", nil, "web")
	w.RunsOn("web", map[string]int32{"member3": 2})
}

// TestReplicasMoveByThemselves has a policy that asks for it: one replica moves at a
// time to a cluster that has come, none while it is suspended, and it is said.
func TestReplicasMoveByThemselves(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	w.StopControllers()
	now := clocktesting.NewFakeClock(time.Now())
	w.Options.Clock = now
	w.StartControllers()
	for _, cluster := range []string{"member1", "member2"} {
		w.SetAvailable(cluster, metav1.ConditionTrue)
	}
	p := harness.Policy("all", byRoom())
	p.Annotations = map[string]string{
		fleetv1alpha1.AnnotationRebalance: fleetv1alpha1.RebalanceContinuous, fleetv1alpha1.AnnotationRebalanceBudget: "1", fleetv1alpha1.AnnotationRebalanceWindow: "1m",
	}
	p.Spec.Suspension = &policyv1alpha1.Suspension{Dispatching: new(false)}
	web := harness.Deployment("web", 6)
	w.CreateAll(p, web)
	w.RunsOn("web", map[string]int32{"member1": 3, "member2": 3})
	w.ChangeObject(p, func() { p.Spec.Suspension.Dispatching = new(true) })
	w.JoinCluster("member3")
	w.SetAvailable("member3", metav1.ConditionTrue)
	binding := &workv1alpha2.ResourceBinding{}
	pass := func(check func() error) func() error {
		return func() error {
			now.SetTime(now.Now().Add(20 * time.Second))
			if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}, binding); err != nil {
				return err
			}
			if err := w.Patch(w.Context(), binding, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"test":%q}}}`, now.Now()))); err != nil {
				return err
			}
			return check()
		}
	}
	looks := 0
	w.Eventually("it has been looked at while it is suspended", pass(func() error {
		if looks++; looks < 20 {
			return errors.New("it has not")
		}
		return nil
	}))
	w.RunsOn("web", map[string]int32{"member1": 3, "member2": 3})

	w.ChangeObject(p, func() { p.Spec.Suspension.Dispatching = new(false) })
	w.Eventually("a replica has moved", pass(func() error {
		if rebalance.LastMove(binding.Annotations).Moves == 0 {
			return fmt.Errorf("%v", binding.Spec.Clusters)
		}
		return nil
	}))
	if got := rebalance.LastMove(binding.Annotations); got.Moves != 1 || got.What != "1 replica moved: member1 3 -> 2, member3 0 -> 1, as there is room in member3; 1 more would move" {
		t.Errorf("the binding says %+v", got)
	}
	w.Eventually("another one has moved", pass(func() error {
		if len(binding.Spec.Clusters) != 3 || binding.Spec.Clusters[2].Replicas != 2 {
			return fmt.Errorf("%v", binding.Spec.Clusters)
		}
		return nil
	}))
	w.RunsOn("web", map[string]int32{"member1": 2, "member2": 2, "member3": 2})
	w.Eventually("an event says so", func() error {
		list := &eventsv1.EventList{}
		if err := w.List(w.Context(), list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == "ReplicasRebalanced" && e.Regarding.Kind == "Deployment" && e.Regarding.UID == web.UID {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

// createRebalancer creates a rebalancer for Deployments.
func createRebalancer(w harness.World, name string, ttl *int32, deployments ...string) *appsv1alpha1.WorkloadRebalancer {
	w.Helper()
	r := &appsv1alpha1.WorkloadRebalancer{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1alpha1.WorkloadRebalancerSpec{TTLSecondsAfterFinished: ttl}}
	for _, each := range deployments {
		r.Spec.Workloads = append(r.Spec.Workloads, appsv1alpha1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: metav1.NamespaceDefault, Name: each})
	}
	w.CreateAll(r)
	return r
}
