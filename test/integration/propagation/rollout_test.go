// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
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

// image gives a Deployment another image.
func (w world) image(d *appsv1.Deployment, image string) {
	w.Helper()
	w.change(d, func() { d.Spec.Template.Spec.Containers[0].Image = image })
}

// images returns which images the clusters of a Deployment are sent, and with how
// many replicas.
func (w world) images(name string) (string, error) {
	sent, err := w.everySent()
	var all []string
	for key, work := range sent {
		cluster, object, _ := strings.Cut(key, "/")
		if object != "Deployment/"+name || work.going {
			continue
		}
		replicas, _, _ := unstructured.NestedInt64(work.object.Object, "spec", "replicas")
		containers, _, _ := unstructured.NestedSlice(work.object.Object, "spec", "template", "spec", "containers")
		image, _, _ := unstructured.NestedString(containers[0].(map[string]any), "image")
		all = append(all, fmt.Sprintf("%s %s x%d", strings.TrimPrefix(cluster, "member"), strings.TrimPrefix(image, "nginx:"), replicas))
	}
	slices.Sort(all)
	return strings.Join(all, ", "), err
}

// have waits until the clusters of a Deployment are sent these images.
func (w world) have(name, want string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s is sent as %s", name, want), func() error {
		got, err := w.images(name)
		if err == nil && got != want {
			err = errors.New("it is sent as " + got)
		}
		return err
	})
}

// is waits until a rollout says why it is complete with a revision, or not.
func (w world) is(r *fleetv1alpha1.PropagationRollout, revision int64, reason, part string) {
	w.Helper()
	w.eventually(fmt.Sprintf("revision %d is %s: %s", revision, reason, part), func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, fleetv1alpha1.PropagationRolloutConditionComplete)
		if c == nil || r.Status.Revision != revision || r.Status.ObservedGeneration != r.Generation || c.Reason != reason || !strings.Contains(c.Message, part) {
			return fmt.Errorf("it says %+v", r.Status)
		}
		return nil
	})
}

// TestAChangeGoesGroupByGroup has a change that fails in the second group, is
// explained, undone and repeated.
func TestAChangeGoesGroupByGroup(t *testing.T) {
	counted := &writes{counts: map[string]int{}}
	w := newWorld(t, 4, counted.count)
	web, r := deployment("web", 2), stages(nil)
	w.create(web, policy("web", policyv1alpha1.Placement{}))
	w.have("web", "1 1.27 x2, 2 1.27 x2, 3 1.27 x2, 4 1.27 x2")
	w.create(r)
	w.is(r, 1, fleetv1alpha1.PropagationRolloutReasonComplete, "4 of 4 clusters")

	w.image(web, "nginx:1.28")
	w.have("web", "1 1.28 x2, 2 1.28 x2, 3 1.28 x2, 4 1.28 x2")
	w.is(r, 2, fleetv1alpha1.PropagationRolloutReasonComplete, "4 of 4 clusters")
	if s := r.Status; s.Revision != 2 || s.Stage != "3/3" || s.Objects != 1 || s.Clusters.Total != 4 || s.Clusters.Healthy != 4 || s.Clusters.Updated != 4 {
		t.Errorf("the status is %+v", s)
	}

	w.image(web, brokenImage)
	w.is(r, 3, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "1 failed in group next, and maxFailures allows 0. member2: default/web-deployment has not become healthy in time")
	w.have("web", "1 broken x2, 2 broken x2, 3 1.28 x2, 4 1.28 x2")
	w.says("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, "PropagationRollout \"web\" keeps the latest change from the cluster")
	w.told(metav1.NamespaceDefault, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "member2: default/web-deployment has not become healthy in time")

	// Who scales is not kept waiting, as by kubectl, which notes what was applied.
	w.change(web, func() {
		web.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"replicas":3}}`}
		web.Spec.Replicas = new(int32(3))
	})
	w.have("web", "1 broken x3, 2 broken x3, 3 1.28 x3, 4 1.28 x3")

	w.change(r, func() { r.Spec.Undo = new(r.Status.Revision) })
	w.have("web", "1 1.28 x3, 2 1.28 x3, 3 1.28 x3, 4 1.28 x3")
	w.is(r, 3, fleetv1alpha1.PropagationRolloutReasonUndone, "before revision 3")

	w.image(web, "nginx:1.29")
	w.have("web", "1 1.29 x3, 2 1.29 x3, 3 1.29 x3, 4 1.29 x3")
	w.is(r, 4, fleetv1alpha1.PropagationRolloutReasonComplete, "4 of 4 clusters")
	w.revisions(1)
	counted.mu.Lock()
	t.Log(counted.counts)
	counted.mu.Unlock()
}

// revisions waits until so many are stored.
func (w world) revisions(want int) {
	w.Helper()
	w.eventually(fmt.Sprintf("%d revisions are stored", want), func() error {
		list := &fleetv1alpha1.PropagationRevisionList{}
		if err := w.List(w.Context(), list); err != nil {
			return err
		}
		if len(list.Items) != want {
			return errors.New(fmt.Sprint(len(list.Items), " are"))
		}
		return nil
	})
}

// TestAPausedRolloutWaits has a rollout that is paused while the object changes
// again, a cluster comes, and the controllers restart.
func TestAPausedRolloutWaits(t *testing.T) {
	w := newWorld(t, 3)
	web, r := deployment("web", 1), stages(nil)
	w.create(web, policy("web", policyv1alpha1.Placement{}))
	w.have("web", "1 1.27 x1, 2 1.27 x1, 3 1.27 x1")
	w.create(r)
	w.is(r, 1, fleetv1alpha1.PropagationRolloutReasonComplete, "3 of 3 clusters")

	w.image(web, brokenImage)
	w.is(r, 2, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "1 failed in group next")
	w.change(r, func() { r.Spec.Paused = true })
	w.image(web, "nginx:1.28")
	w.is(r, 3, fleetv1alpha1.PropagationRolloutReasonPaused, "3 of 3 clusters do not have the latest change")
	w.have("web", "1 broken x1, 2 broken x1, 3 1.27 x1")
	w.join("member4")
	w.restart()
	w.image(web, "nginx:1.29")
	w.is(r, 4, fleetv1alpha1.PropagationRolloutReasonPaused, "4 of 4 clusters do not have the latest change")
	w.scale(web, 2)
	w.have("web", "1 broken x2, 2 broken x2, 3 1.27 x2")

	w.change(r, func() { r.Spec.Paused = false })
	w.have("web", "1 1.29 x2, 2 1.29 x2, 3 1.29 x2, 4 1.29 x2")
	w.is(r, 4, fleetv1alpha1.PropagationRolloutReasonComplete, "4 of 4 clusters")
	w.revisions(1)
}

// TestAllObjectsOfAPolicyAreRolledOutTogether has one object fail, which keeps the
// change of another one from the next groups, and a rollout of that one alone.
func TestAllObjectsOfAPolicyAreRolledOutTogether(t *testing.T) {
	w := newWorld(t, 3)
	web, db := deployment("web", 1), deployment("db", 1)
	w.create(web, db, policy("web", policyv1alpha1.Placement{}))
	all, r := "1 1.27 x1, 2 1.27 x1, 3 1.27 x1", stages(nil)
	w.have("web", all)
	w.have("db", all)
	w.create(r)
	w.is(r, 2, fleetv1alpha1.PropagationRolloutReasonComplete, "3 of 3 clusters")
	w.image(web, brokenImage)
	w.is(r, 3, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "member2: default/web-deployment")
	w.image(db, "nginx:1.28")
	w.have("db", "1 1.28 x1, 2 1.28 x1, 3 1.27 x1")
	w.is(r, 4, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "member2: default/web-deployment")
	w.have("db", "1 1.28 x1, 2 1.28 x1, 3 1.27 x1")

	own := stages(func(s *fleetv1alpha1.PropagationRolloutSpec) {
		s.Policy, s.Template = nil, &fleetv1alpha1.RolloutTemplate{APIVersion: "apps/v1", Kind: "Deployment", Name: "db"}
	})
	own.Name = "db"
	w.create(own)
	w.have("db", "1 1.28 x1, 2 1.28 x1, 3 1.28 x1")
	w.is(own, 1, fleetv1alpha1.PropagationRolloutReasonComplete, "3 of 3 clusters")

	// Without the rollout the rest goes at once.
	if err := w.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	w.have("web", "1 broken x1, 2 broken x1, 3 broken x1")
	w.revisions(1)
}

// TestAMoveLeavesTheOldClustersLast moves an object to other clusters, step by step.
func TestAMoveLeavesTheOldClustersLast(t *testing.T) {
	w := newWorld(t, 3)
	to := func(names ...string) policyv1alpha1.Placement {
		return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names}}
	}
	web, p, r := deployment("web", 1), policy("web", to("member1")), stages(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Paused = true })
	w.create(r, web, p)
	w.is(r, 1, fleetv1alpha1.PropagationRolloutReasonPaused, "1 of 1 clusters")
	w.have("web", "")
	w.change(r, func() { r.Spec.Paused, r.Spec.Undo = false, new(r.Status.Revision) })
	w.is(r, 1, fleetv1alpha1.PropagationRolloutReasonPaused, "spec.undo has no effect on 1 of 1 objects")
	w.have("web", "")
	w.change(r, func() { r.Spec.Undo = nil })
	w.have("web", "1 1.27 x1")
	w.is(r, 1, fleetv1alpha1.PropagationRolloutReasonComplete, "1 of 1 clusters")
	w.change(r, func() { r.Spec.Paused = true })
	w.change(p, func() { p.Spec.Placement = to("member2", "member3") })
	w.is(r, 1, fleetv1alpha1.PropagationRolloutReasonPaused, "2 of 2 clusters")
	w.have("web", "1 1.27 x1")
	w.change(r, func() { r.Spec.Paused = false })
	w.have("web", "2 1.27 x1, 3 1.27 x1")
}

// TestARolloutWithoutATarget names what is not there, and what an older one has.
func TestARolloutWithoutATarget(t *testing.T) {
	w := newWorld(t, 1)
	lost := stages(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Policy.Name = "lost" })
	kind := stages(func(s *fleetv1alpha1.PropagationRolloutSpec) {
		s.Policy, s.Template = nil, &fleetv1alpha1.RolloutTemplate{APIVersion: "example.com/v1", Kind: "Gizmo", Name: "a"}
	})
	wrong := stages(func(s *fleetv1alpha1.PropagationRolloutSpec) {
		s.Policy.Name = "wrong"
		s.Groups[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}
	})
	kind.Name, wrong.Name = "kind", "wrong"
	w.create(lost, kind, wrong)
	w.refusedAs(lost, fleetv1alpha1.PropagationRolloutReasonTargetNotFound, `There is no PropagationPolicy "lost": create it`)
	w.refusedAs(kind, fleetv1alpha1.PropagationRolloutReasonTargetNotFound, `No policy sends Gizmo "a" (example.com/v1) to clusters`)
	w.refusedAs(wrong, fleetv1alpha1.PropagationRolloutReasonInvalid, "spec.groups[0].labelSelector")
	again := stages(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Policy.Name = "lost" })
	again.Name = "z-again"
	w.create(again)
	w.refusedAs(again, fleetv1alpha1.PropagationRolloutReasonConflict, `Rollout "web" has the same target`)
	if err := w.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	w.create(policy("lost", policyv1alpha1.Placement{}), deployment("web", 1))
	w.is(again, 1, fleetv1alpha1.PropagationRolloutReasonComplete, "1 of 1 clusters")
	if err := w.changeOnce(again, func() { again.Spec.Undo = new(int64(2)) }); err == nil || !strings.Contains(err.Error(), "spec.undo is at most status.revision") {
		t.Errorf("undoing what has not begun: %v", err)
	}
}

// refusedAs waits until a rollout is not in effect.
func (w world) refusedAs(r *fleetv1alpha1.PropagationRollout, reason, part string) {
	w.Helper()
	w.eventually(r.Name+" says "+reason, func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, fleetv1alpha1.PropagationRolloutConditionAccepted)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, part) {
			return fmt.Errorf("it says %+v", r.Status.Conditions)
		}
		return nil
	})
}

// changeOnce changes an object once.
func (w world) changeOnce(object client.Object, change func()) error {
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	change()
	return w.Update(w.Context(), object)
}
