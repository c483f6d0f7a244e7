// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/affinity"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// TestWhoNeedsAnObjectFillsNoMemory has a binding say that many need its object in the same clusters, with replicas of many
// parts: a cache has each cluster, and only its name.
func TestWhoNeedsAnObjectFillsNoMemory(t *testing.T) {
	const many, clusters, most = 500, 100, 12_000
	b := &workv1alpha2.ResourceBinding{}
	for n := range many {
		one := workv1alpha2.BindingSnapshot{Namespace: "shop", Name: fmt.Sprint("web-", n)}
		for i := range clusters {
			one.Clusters = append(one.Clusters, workv1alpha2.TargetCluster{Name: fmt.Sprint("member", i), Components: make([]workv1alpha2.TargetComponent, 10)})
		}
		b.Spec.RequiredBy = append(b.Spec.RequiredBy, one)
	}
	if _, err := NewSharedValues().SlimBinding(b); err != nil {
		t.Fatal(err)
	}
	kept := 0
	named := map[string]bool{}
	for _, one := range b.Spec.RequiredBy {
		for _, target := range one.Clusters {
			kept++
			named[target.Name] = true
			if len(target.Components) > 0 {
				t.Fatalf("parts are kept of %s", target.Name)
			}
		}
	}
	if kept > most || len(named) != clusters {
		t.Errorf("%d clusters are kept, want at most %d; of %d names there are %d", kept, most, clusters, len(named))
	}
}

// TestLongListsAreNotKept has bindings and policies with many empty elements, as they may be stored since before
// their schemas had bounds: whoever checks them still sees that they have too many.
func TestLongListsAreNotKept(t *testing.T) {
	const many = 100_000
	state := func() *policyv1alpha1.StatePreservation {
		return &policyv1alpha1.StatePreservation{Rules: make([]policyv1alpha1.StatePreservationRule, many)}
	}
	failover := &policyv1alpha1.FailoverBehavior{
		Application: &policyv1alpha1.ApplicationFailoverBehavior{StatePreservation: state()}, Cluster: &policyv1alpha1.ClusterFailoverBehavior{StatePreservation: state()},
	}
	suspension := policyv1alpha1.Suspension{DispatchingOnClusters: &policyv1alpha1.SuspendClusters{ClusterNames: make([]string, many)}}
	placement := policyv1alpha1.Placement{ClusterTolerations: make([]corev1.Toleration, many)}
	claim := func() *workv1alpha2.NodeClaim {
		return &workv1alpha2.NodeClaim{
			Tolerations: make([]corev1.Toleration, many), HardNodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, many)},
		}
	}
	policy := &policyv1alpha1.PropagationPolicy{Spec: policyv1alpha1.PropagationSpec{Placement: placement, Suspension: &suspension, Failover: failover}}
	policy = policy.DeepCopy()
	binding := &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{
		Placement: &placement, Suspension: &workv1alpha2.Suspension{Suspension: suspension}, Failover: failover,
		ReplicaRequirements: &workv1alpha2.ReplicaRequirements{NodeClaim: claim()},
		Components:          []workv1alpha2.Component{{ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{NodeClaim: claim()}}},
	}}
	common := NewSharedValues()
	if _, err := common.SlimObject(policy); err != nil {
		t.Fatal(err)
	}
	if _, err := common.SlimBinding(binding); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]struct {
		placement  *policyv1alpha1.Placement
		suspension *policyv1alpha1.Suspension
		failover   *policyv1alpha1.FailoverBehavior
	}{
		"policy":  {&policy.Spec.Placement, policy.Spec.Suspension, policy.Spec.Failover},
		"binding": {binding.Spec.Placement, &binding.Spec.Suspension.Suspension, binding.Spec.Failover},
	} {
		expectShortened(t, name+": tolerations", cap(spec.placement.ClusterTolerations), affinity.TolerationsMax)
		expectShortened(t, name+": suspended clusters", cap(spec.suspension.DispatchingOnClusters.ClusterNames), claims.SuspendedMax)
		for _, state := range claims.StatesPreserved(spec.failover) {
			expectShortened(t, name+": rules", cap(state.Rules), claims.PreservedMax)
		}
	}
	for _, claim := range []*workv1alpha2.NodeClaim{binding.Spec.ReplicaRequirements.NodeClaim, binding.Spec.Components[0].ReplicaRequirements.NodeClaim} {
		expectShortened(t, "nodes: tolerations", cap(claim.Tolerations), 0)
		expectShortened(t, "nodes: terms", cap(claim.HardNodeAffinity.NodeSelectorTerms), 0)
	}
}

// expectShortened wants room for more elements than are allowed, and for not many more.
func expectShortened(t *testing.T, list string, kept, allowed int) {
	t.Helper()
	if kept < allowed+1 || kept > max(200, 2*allowed) {
		t.Errorf("%s: there is room for %d elements, of which %d are allowed", list, kept, allowed)
	}
}
