// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// stages returns a rollout of policy web: member1, then member2, then the others.
func stages(change func(*fleetv1alpha1.PropagationRolloutSpec)) *fleetv1alpha1.PropagationRollout {
	r := &fleetv1alpha1.PropagationRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"},
		Spec: fleetv1alpha1.PropagationRolloutSpec{
			Policy: &fleetv1alpha1.RolloutPolicy{Name: "web"}, ProgressDeadline: "2s",
			Groups: []fleetv1alpha1.RolloutGroup{
				{Name: "canary", ClusterNames: []string{"member1"}},
				{Name: "next", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "member2"}}},
			},
		},
	}
	if change != nil {
		change(&r.Spec)
	}
	return r
}

// TestAChangeGoesGroupByGroup has a change that fails in the second group, is
// explained, undone and repeated.
func TestAChangeGoesGroupByGroup(t *testing.T) {
	counted := &writes{counts: map[string]int{}}
	w := harness.NewWorld(t, servers, 4, counted.count)
	web, r := harness.Deployment("web", 2), stages(nil)
	w.CreateAll(web, harness.Policy("web", policyv1alpha1.Placement{}))
	w.HasImages("web", "1 1.27 x2, 2 1.27 x2, 3 1.27 x2, 4 1.27 x2")
	w.CreateAll(r)
	w.RolloutIs(r, 1, fleetv1alpha1.PropagationRolloutReasonComplete, "4 of 4 clusters")

	w.SetImage(web, "nginx:1.28")
	w.HasImages("web", "1 1.28 x2, 2 1.28 x2, 3 1.28 x2, 4 1.28 x2")
	w.RolloutIs(r, 2, fleetv1alpha1.PropagationRolloutReasonComplete, "4 of 4 clusters")
	if s := r.Status; s.Revision != 2 || s.Stage != "3/3" || s.Objects != 1 || s.Clusters.Total != 4 || s.Clusters.Healthy != 4 || s.Clusters.Updated != 4 {
		t.Errorf("the status is %+v", s)
	}

	w.SetImage(web, harness.BrokenImage)
	w.RolloutIs(r, 3, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "1 failed in group next, and maxFailures allows 0. member2: default/web-deployment has not become healthy in time")
	w.HasImages("web", "1 broken x2, 2 broken x2, 3 1.28 x2, 4 1.28 x2")
	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, "PropagationRollout \"web\" keeps the latest change from the cluster")
	w.NamespaceHasEvent(metav1.NamespaceDefault, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "member2: default/web-deployment has not become healthy in time")

	// Who scales is not kept waiting, as by kubectl, which notes what was applied.
	w.ChangeObject(web, func() {
		web.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"replicas":3}}`}
		web.Spec.Replicas = new(int32(3))
	})
	w.HasImages("web", "1 broken x3, 2 broken x3, 3 1.28 x3, 4 1.28 x3")

	w.ChangeObject(r, func() { r.Spec.Undo = new(r.Status.Revision) })
	w.HasImages("web", "1 1.28 x3, 2 1.28 x3, 3 1.28 x3, 4 1.28 x3")
	w.RolloutIs(r, 3, fleetv1alpha1.PropagationRolloutReasonUndone, "before revision 3")

	w.SetImage(web, "nginx:1.29")
	w.HasImages("web", "1 1.29 x3, 2 1.29 x3, 3 1.29 x3, 4 1.29 x3")
	w.RolloutIs(r, 4, fleetv1alpha1.PropagationRolloutReasonComplete, "4 of 4 clusters")
	w.HasRevisions(1)
	counted.mu.Lock()
	t.Log(counted.counts)
	counted.mu.Unlock()
}

// TestAPausedRolloutWaits has a rollout that is paused while the object changes
// again, a cluster comes, and the controllers restart.
func TestAPausedRolloutWaits(t *testing.T) {
	w := harness.NewWorld(t, servers, 3)
	web, r := harness.Deployment("web", 1), stages(nil)
	w.CreateAll(web, harness.Policy("web", policyv1alpha1.Placement{}))
	w.HasImages("web", "1 1.27 x1, 2 1.27 x1, 3 1.27 x1")
	w.CreateAll(r)
	w.RolloutIs(r, 1, fleetv1alpha1.PropagationRolloutReasonComplete, "3 of 3 clusters")

	w.SetImage(web, harness.BrokenImage)
	w.RolloutIs(r, 2, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "1 failed in group next")
	w.ChangeObject(r, func() { r.Spec.Paused = true })
	w.SetImage(web, "nginx:1.28")
	w.RolloutIs(r, 3, fleetv1alpha1.PropagationRolloutReasonPaused, "3 of 3 clusters do not have the latest change")
	w.HasImages("web", "1 broken x1, 2 broken x1, 3 1.27 x1")
	w.JoinCluster("member4")
	w.RestartControllers()
	w.SetImage(web, "nginx:1.29")
	w.RolloutIs(r, 4, fleetv1alpha1.PropagationRolloutReasonPaused, "4 of 4 clusters do not have the latest change")
	w.ScaleDeployment(web, 2)
	w.HasImages("web", "1 broken x2, 2 broken x2, 3 1.27 x2")

	w.ChangeObject(r, func() { r.Spec.Paused = false })
	w.HasImages("web", "1 1.29 x2, 2 1.29 x2, 3 1.29 x2, 4 1.29 x2")
	w.RolloutIs(r, 4, fleetv1alpha1.PropagationRolloutReasonComplete, "4 of 4 clusters")
	w.HasRevisions(1)
}

// TestAllObjectsOfAPolicyAreRolledOutTogether has one object fail, which keeps the
// change of another one from the next groups, and a rollout of that one alone.
func TestAllObjectsOfAPolicyAreRolledOutTogether(t *testing.T) {
	w := harness.NewWorld(t, servers, 3)
	web, db := harness.Deployment("web", 1), harness.Deployment("db", 1)
	w.CreateAll(web, db, harness.Policy("web", policyv1alpha1.Placement{}))
	all, r := "1 1.27 x1, 2 1.27 x1, 3 1.27 x1", stages(nil)
	w.HasImages("web", all)
	w.HasImages("db", all)
	w.CreateAll(r)
	w.RolloutIs(r, 2, fleetv1alpha1.PropagationRolloutReasonComplete, "3 of 3 clusters")
	w.SetImage(web, harness.BrokenImage)
	w.RolloutIs(r, 3, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "member2: default/web-deployment")
	w.SetImage(db, "nginx:1.28")
	w.HasImages("db", "1 1.28 x1, 2 1.28 x1, 3 1.27 x1")
	w.RolloutIs(r, 4, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "member2: default/web-deployment")
	w.HasImages("db", "1 1.28 x1, 2 1.28 x1, 3 1.27 x1")

	own := stages(func(s *fleetv1alpha1.PropagationRolloutSpec) {
		s.Policy, s.Template = nil, &fleetv1alpha1.RolloutTemplate{APIVersion: "apps/v1", Kind: "Deployment", Name: "db"}
	})
	own.Name = "db"
	w.CreateAll(own)
	w.HasImages("db", "1 1.28 x1, 2 1.28 x1, 3 1.28 x1")
	w.RolloutIs(own, 1, fleetv1alpha1.PropagationRolloutReasonComplete, "3 of 3 clusters")

	// Without the rollout the rest goes at once.
	if err := w.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	w.HasImages("web", "1 broken x1, 2 broken x1, 3 broken x1")
	w.HasRevisions(1)
}

// TestAMoveLeavesTheOldClustersLast moves an object to other clusters, step by step.
func TestAMoveLeavesTheOldClustersLast(t *testing.T) {
	w := harness.NewWorld(t, servers, 3)
	to := func(names ...string) policyv1alpha1.Placement {
		return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names}}
	}
	web, p, r := harness.Deployment("web", 1), harness.Policy("web", to("member1")), stages(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Paused = true })
	w.CreateAll(r, web, p)
	w.RolloutIs(r, 1, fleetv1alpha1.PropagationRolloutReasonPaused, "1 of 1 clusters")
	w.HasImages("web", "")
	w.ChangeObject(r, func() { r.Spec.Paused, r.Spec.Undo = false, new(r.Status.Revision) })
	w.RolloutIs(r, 1, fleetv1alpha1.PropagationRolloutReasonPaused, "spec.undo has no effect on 1 of 1 objects")
	w.HasImages("web", "")
	w.ChangeObject(r, func() { r.Spec.Undo = nil })
	w.HasImages("web", "1 1.27 x1")
	w.RolloutIs(r, 1, fleetv1alpha1.PropagationRolloutReasonComplete, "1 of 1 clusters")
	w.ChangeObject(r, func() { r.Spec.Paused = true })
	w.ChangeObject(p, func() { p.Spec.Placement = to("member2", "member3") })
	w.RolloutIs(r, 1, fleetv1alpha1.PropagationRolloutReasonPaused, "2 of 2 clusters")
	w.HasImages("web", "1 1.27 x1")
	w.ChangeObject(r, func() { r.Spec.Paused = false })
	w.HasImages("web", "2 1.27 x1, 3 1.27 x1")
}

// TestARolloutWithoutATarget names what is not there, and what an older one has.
func TestARolloutWithoutATarget(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	lost := stages(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Policy.Name = "lost" })
	kind := stages(func(s *fleetv1alpha1.PropagationRolloutSpec) {
		s.Policy, s.Template = nil, &fleetv1alpha1.RolloutTemplate{APIVersion: "example.com/v1", Kind: "Gizmo", Name: "a"}
	})
	wrong := stages(func(s *fleetv1alpha1.PropagationRolloutSpec) {
		s.Policy.Name = "wrong"
		s.Groups[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}
	})
	kind.Name, wrong.Name = "kind", "wrong"
	w.CreateAll(lost, kind, wrong)
	w.RolloutRefused(lost, fleetv1alpha1.PropagationRolloutReasonTargetNotFound, `There is no PropagationPolicy "lost": create it`)
	w.RolloutRefused(kind, fleetv1alpha1.PropagationRolloutReasonTargetNotFound, `No policy sends Gizmo "a" (example.com/v1) to clusters`)
	w.RolloutRefused(wrong, fleetv1alpha1.PropagationRolloutReasonInvalid, "spec.groups[0].labelSelector")
	again := stages(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Policy.Name = "lost" })
	again.Name = "z-again"
	w.CreateAll(again)
	w.RolloutRefused(again, fleetv1alpha1.PropagationRolloutReasonConflict, `Rollout "web" has the same target`)
	if err := w.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	w.CreateAll(harness.Policy("lost", policyv1alpha1.Placement{}), harness.Deployment("web", 1))
	w.RolloutIs(again, 1, fleetv1alpha1.PropagationRolloutReasonComplete, "1 of 1 clusters")
	if err := w.ChangeOnce(again, func() { again.Spec.Undo = new(int64(2)) }); err == nil || !strings.Contains(err.Error(), "spec.undo is at most status.revision") {
		t.Errorf("undoing what has not begun: %v", err)
	}
}
