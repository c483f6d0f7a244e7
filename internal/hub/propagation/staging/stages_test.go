// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/turns"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/propagation/override"
)

// hub has a rollout of policy web, and clusters a and b that get Deployment web, a
// first.
type hub struct {
	*testing.T
	client.Client
	stages  *Stages
	clock   *clocktesting.FakePassiveClock
	rollout *fleetv1alpha1.PropagationRollout
	binding *workv1alpha2.ResourceBinding
	image   string
	works   map[string]*workv1.ManifestWork
	own     []policyv1alpha1.OverridePolicy
	turns   *turns.Turns
	refused error // to delete revisions
	// lists counts how often revisions were listed, and touched how often bindings were
	// told to be looked at.
	lists, touched int
	// deletes counts the requests by which revisions were deleted.
	deletes int
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newHub(t *testing.T) *hub {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{fleetv1alpha1.AddToScheme, policyv1alpha1.AddToScheme, workv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	h := &hub{T: t, clock: clocktesting.NewFakePassiveClock(noon), image: "1", works: map[string]*workv1.ManifestWork{}}
	h.turns = turns.NewTurns(2, func(types.NamespacedName) {})
	h.binding = &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-deployment", UID: "b",
		Labels:      map[string]string{workv1alpha2.LabelResourceBindingID: "an-id", policyv1alpha1.LabelPropagationPolicyID: "webs"},
		Annotations: map[string]string{policyv1alpha1.AnnotationPropagationPolicyNamespace: "shop", policyv1alpha1.AnnotationPropagationPolicyName: "web"},
	}}
	h.binding.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	h.binding.Spec.Replicas = 2
	h.to("a", "b")
	h.rollout = &fleetv1alpha1.PropagationRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "r", Generation: 1},
		Spec: fleetv1alpha1.PropagationRolloutSpec{
			Policy: &fleetv1alpha1.RolloutPolicy{Name: "web"}, Groups: []fleetv1alpha1.RolloutGroup{{Name: "canary", ClusterNames: []string{"a"}}},
		},
	}
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Labels: map[string]string{policyv1alpha1.LabelPropagationPolicyID: "webs"},
	}}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}
	h.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(h.binding, h.rollout, policy).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			h.deletes++
			if h.refused != nil {
				return h.refused
			}
			return c.Delete(ctx, object, opts...)
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteAllOfOption) error {
			h.deletes++
			if h.refused != nil {
				return h.refused
			}
			return c.DeleteAllOf(ctx, object, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*fleetv1alpha1.PropagationRevisionList); is {
				h.lists++
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	h.restart()
	return h
}

// to chooses the clusters.
func (h *hub) to(clusters ...string) {
	h.binding.Spec.Clusters = nil
	for _, name := range clusters {
		h.binding.Spec.Clusters = append(h.binding.Spec.Clusters, workv1alpha2.TargetCluster{Name: name, Replicas: h.binding.Spec.Replicas})
	}
}

// restart forgets what is not stored.
func (h *hub) restart() {
	h.Helper()
	h.stages = NewStages(StageDeps{
		Client: h.Client, Live: h.Client, Fleet: fleet.NewFleet(h.clock), Clock: h.clock, Turns: h.turns, Touched: func(types.NamespacedName) { h.touched++ }, Changed: func(RolloutKey) {},
	})
	if err := h.stages.LoadRollouts(h.Context()); err != nil {
		h.Fatal(err)
	}
}

// change changes the rollout.
func (h *hub) change(change func(*fleetv1alpha1.PropagationRolloutSpec)) {
	h.Helper()
	change(&h.rollout.Spec)
	h.rollout.Generation++
	if err := h.stages.SetRollout(h.Context(), h.rollout); err != nil {
		h.Fatal(err)
	}
}

// look looks at the binding until nothing changes any more. All clusters that get
// something are healthy but those of the names. It returns what clusters are sent.
func (h *hub) look(sick ...string) string {
	h.Helper()
	for range 10 {
		if err := h.pass(sick...); err != nil {
			h.Fatal(err)
		}
		h.progress()
	}
	return h.clusterWorks()
}

// clusterWorks returns what clusters are sent.
func (h *hub) clusterWorks() string {
	h.Helper()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(h.works)) {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(h.works[name].Spec.Workload.Manifests[0].Raw); err != nil {
			h.Fatal(err)
		}
		replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		image, _, _ := unstructured.NestedString(object.Object, "spec", "image")
		all = append(all, fmt.Sprintf("%s %s x%d", name, image, replicas))
	}
	return strings.Join(all, ", ")
}

func (h *hub) pass(sick ...string) error {
	var clusters []view.Cluster
	for _, target := range h.binding.Spec.Clusters {
		clusters = append(clusters, view.Cluster{Name: target.Name, Accepted: true})
	}
	source := deliver.WorkSource{Binding: h.binding, Fleet: view.NewFleet(clusters...), Chain: interpret.Chain{native.NewKubernetesKinds()}, Object: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec": map[string]any{"replicas": int64(h.binding.Spec.Replicas), "image": h.image},
	}}}
	source.Overrides, source.Mistake = override.SelectPolicies(source.Object, nil, h.own)
	wanted, problems, err := deliver.RenderWorks(source)
	if err != nil {
		return err
	}
	var works []workv1.ManifestWork
	for _, work := range h.works {
		works = append(works, *work)
	}
	v, err := h.stages.StageWorks(h.Context(), StageInput{Binding: h.binding, Source: source, Own: h.own, Works: works, Wanted: wanted, Problems: problems})
	if err != nil {
		return err
	}
	for cluster, work := range v.Wanted {
		applied := metav1.Condition{Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue}
		if slices.Contains(sick, cluster) {
			applied.Status, applied.Message = metav1.ConditionFalse, "it is broken"
		}
		work.Status.Conditions = []metav1.Condition{applied}
		h.works[cluster] = work
	}
	return nil
}

// progress returns how far the rollout is.
func (h *hub) progress() RolloutProgress {
	p, _ := h.stages.DecideProgress(client.ObjectKeyFromObject(h.rollout))
	return p
}

// revisions returns the names of the revisions that are stored.
func (h *hub) revisions() (names []string) {
	h.Helper()
	list := &fleetv1alpha1.PropagationRevisionList{}
	if err := h.List(h.Context(), list); err != nil {
		h.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// sent checks what clusters are sent.
func (h *hub) sent(when, got, want string) {
	h.Helper()
	if got != want {
		h.Errorf("%s: the clusters are sent %q, want %q", when, got, want)
	}
}

// TestConflictResolutionIsAChange has it change while the rollout is paused, and the
// object be scaled then.
func TestConflictResolutionIsAChange(t *testing.T) {
	h := newHub(t)
	h.sent("at first", h.look(), "a 1 x2, b 1 x2")
	h.change(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Paused = true })
	h.binding.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
	h.look()
	if p := h.progress(); p.Revision != 2 || p.Pending != 2 {
		t.Errorf("it is no revision: %+v", p)
	}
	h.binding.Spec.Replicas = 3
	h.to("a", "b")
	h.sent("scaled", h.look(), "a 1 x3, b 1 x3")
	said := func() string {
		raw := string(h.works["a"].Spec.Workload.Manifests[0].Raw)
		return fmt.Sprint(strings.Contains(raw, `"work.karmada.io/conflict-resolution":"overwrite"`))
	}
	h.sent("what it had", said(), "false")
	h.change(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Paused = false })
	h.look()
	h.sent("the change", said(), "true")
}

var errRefused = errors.New("etcd is away")

// TestRevisionsDoNotStay has an object leave a rollout, or the rollout go, while
// nothing can be deleted, and the controller restart.
func TestRevisionsDoNotStay(t *testing.T) {
	name, key := types.NamespacedName{Namespace: "shop", Name: "web-deployment"}, RolloutKey{Namespace: "shop", Name: "web"}
	for what, test := range map[string]struct {
		leave   func(*hub) error
		restart bool
	}{
		"the binding is gone": {leave: func(h *hub) error { return h.stages.ForgetBinding(h.Context(), name) }},
		"another policy has it": {leave: func(h *hub) error {
			h.binding.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] = "other"
			return h.pass()
		}},
		"the rollout is gone": {leave: func(h *hub) error {
			h.stages.RemoveRollout(key)
			return RevisionSweeper{h.stages}.sweepRevisions(h.Context())
		}},
		"the binding went while nobody looked": {restart: true},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHub(t)
			h.look()
			if names := h.revisions(); len(names) != 1 {
				t.Fatal(names)
			}
			if test.restart {
				if err := h.Delete(t.Context(), h.binding); err != nil {
					t.Fatal(err)
				}
				h.restart()
			} else {
				h.refused = errRefused
				for range 2 {
					if err := test.leave(h); !errors.Is(err, errRefused) {
						t.Errorf("it says %v", err)
					}
				}
				h.refused = nil
				if err := test.leave(h); err != nil {
					t.Error(err)
				}
			}
			if names := h.revisions(); len(names) > 0 {
				t.Errorf("%v stay", names)
			}
		})
	}
}

// TestWhatComesBackIsKept has an object leave a rollout and come back, before its
// revision could be deleted.
func TestWhatComesBackIsKept(t *testing.T) {
	h := newHub(t)
	h.look()
	h.refused = errRefused
	h.binding.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] = "other"
	if err := h.pass(); !errors.Is(err, errRefused) {
		t.Fatal(err)
	}
	h.binding.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] = "web"
	if err := h.pass(); !errors.Is(err, errRefused) {
		t.Fatal(err)
	}
	h.refused = nil
	h.look()
	if names := h.revisions(); len(names) != 1 {
		t.Errorf("the revisions are %v, want one", names)
	}
}

// TestWhatCannotBeUndoneStops has the first revision of an object undone, which
// clusters had nothing before of; and that of clusters that are chosen later.
func TestWhatCannotBeUndoneStops(t *testing.T) {
	h := newHub(t)
	h.sent("at first", h.look("a"), "a 1 x2")
	undo := func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Undo = new(h.progress().Revision) }
	h.change(undo)
	h.sent("undone", h.look(), "a 1 x2")
	if p := h.progress(); p.Held != 1 || p.Undone != 0 || p.Done {
		t.Errorf("it does not say that nothing is undone: %+v", p)
	}
	h.image = "2"
	h.sent("something else", h.look(), "a 2 x2, b 2 x2")
	h.change(undo)
	h.sent("all have it", h.look(), "a 2 x2, b 2 x2")
	h.to("a", "b", "c")
	h.sent("chosen later, by an undo from before", h.look(), "a 2 x2, b 2 x2, c 2 x2")

	h.change(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Undo, s.Paused = nil, true })
	h.to("a", "b", "c", "d")
	h.look()
	h.change(undo)
	h.change(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Paused = false })
	h.sent("chosen before the undo", h.look(), "a 2 x2, b 2 x2, c 2 x2")
	h.change(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Undo = nil })
	h.sent("the undo is gone", h.look(), "a 2 x2, b 2 x2, c 2 x2, d 2 x2")
}

// slowClock is a clock by which each look at it takes a second.
type slowClock struct{ *clocktesting.FakePassiveClock }

func (c slowClock) Now() time.Time {
	now := c.FakePassiveClock.Now()
	c.SetTime(now.Add(time.Second))
	return now
}

// TestDecisionsOfANamespaceHaveTheirShare has decisions take long: those about others do
// not wait for the next one.
func TestDecisionsOfANamespaceHaveTheirShare(t *testing.T) {
	h := newHub(t)
	other := &fleetv1alpha1.ClusterPropagationRollout{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "o", Generation: 1}}
	other.Spec.Policy = &fleetv1alpha1.RolloutPolicy{Name: "all"}
	if err := h.stages.SetRollout(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	h.stages.Clock = slowClock{h.clock}
	if p := h.progress(); p.Later != 0 {
		t.Fatalf("nothing was decided, and it is to be asked again after %s", p.Later)
	}
	p := h.progress()
	if p.Later < (decidingShare-2)*time.Second {
		t.Errorf("a decision took more than a second, and the next one may come after %s", p.Later)
	}
	if other, _ := h.stages.DecideProgress(client.ObjectKeyFromObject(other)); other.Later != 0 {
		t.Errorf("about others it is decided after %s", other.Later)
	}
	h.clock.SetTime(h.clock.Now().Add(p.Later))
	if p := h.progress(); p.Later != 0 {
		t.Errorf("after its time it is still to be asked again, after %s", p.Later)
	}
}

// slowDown has all that is done take a second, and objects told of while nobody waits.
func (h *hub) slowDown() {
	h.stages.Clock = slowClock{h.clock}
	h.stages.Touched = func(types.NamespacedName) {
		if !h.stages.mu.TryLock() {
			h.Error("others wait while objects are told of")
			return
		}
		h.touched++
		h.stages.mu.Unlock()
	}
}

// TestSpecsOfANamespaceHaveTheirShare has a spec changed again and again, which takes long each time: a rollout
// may be of many objects. Nobody waits while these are told.
func TestSpecsOfANamespaceHaveTheirShare(t *testing.T) {
	h := newHub(t)
	h.slowDown()
	told := h.touched
	h.change(func(spec *fleetv1alpha1.PropagationRolloutSpec) { spec.Paused = true })
	if h.touched != told+1 {
		t.Errorf("the object is told of %d times", h.touched-told)
	}
	if later := h.stages.PlaceRollout(h.rollout); later != 0 {
		t.Errorf("a spec that is known has to wait for %s", later)
	}
	next := h.rollout.DeepCopy()
	next.Generation++
	later := h.stages.PlaceRollout(next)
	if later < (decidingShare-2)*time.Second {
		t.Errorf("a spec took a second, and the next one is taken in after %s", later)
	}
	h.clock.SetTime(h.clock.Now().Add(later))
	if later := h.stages.PlaceRollout(next); later != 0 {
		t.Errorf("after its time it has to wait for %s", later)
	}
}

// TestRolloutsThatComeAndGoHaveTheirShare has a rollout deleted and created again and again, which takes long each time. The
// next one waits for its turn, and nothing that it is about gets to clusters meanwhile.
func TestRolloutsThatComeAndGoHaveTheirShare(t *testing.T) {
	h := newHub(t)
	h.sent("at first", h.look(), "a 1 x2, b 1 x2")
	ordinary := h.stages.StageDeps
	h.slowDown()
	told := h.touched
	for n := range 3 {
		h.rollout.UID = types.UID(fmt.Sprint("again-", n))
		if later := h.stages.PlaceRollout(h.rollout); later == 0 {
			t.Errorf("rollout %d is taken in at once", n)
		}
	}
	if h.touched != told+1 {
		t.Errorf("the object is told of %d times, and is looked at once", h.touched-told)
	}
	h.image = "2"
	if err := h.pass(); err != nil {
		t.Fatal(err)
	}
	h.sent("while the rollout waits", h.clusterWorks(), "a 1 x2, b 1 x2")
	h.clock.SetTime(h.clock.Now().Add(time.Hour))
	h.stages.StageDeps = ordinary
	if later := h.stages.PlaceRollout(h.rollout); later != 0 {
		t.Errorf("after its time it has to wait for %s", later)
	}
	if err := h.stages.SetRollout(t.Context(), h.rollout); err != nil {
		t.Fatal(err)
	}
	h.sent("when it has been taken in", h.look("a"), "a 2 x2, b 1 x2")
	h.stages.RemoveRollout(client.ObjectKeyFromObject(h.rollout))
	if len(h.stages.governed) > 0 {
		t.Errorf("%d bindings are of a rollout that is gone", len(h.stages.governed))
	}
}

// TestNoRestIsCutShort has a short one begin in a long one.
func TestNoRestIsCutShort(t *testing.T) {
	rests := namespaceRests{}
	rests.beginRest("shop", time.Second, noon)
	rests.beginRest("shop", time.Millisecond, noon)
	if left := rests["shop"].Sub(noon); left != (decidingShare-1)*time.Second {
		t.Errorf("it ends after %s", left)
	}
}

// TestNewsAreDecidedAboutOnce has a binding looked at again and again: who decides is told
// while there is something new, and by what is not decided about nothing is done.
func TestNewsAreDecidedAboutOnce(t *testing.T) {
	h := newHub(t)
	h.look()
	told, done := 0, false
	h.stages.Changed = func(RolloutKey) { told++; done = h.stages.entries[client.ObjectKeyFromObject(h.rollout)].outcome.Done }
	h.look()
	if told != 0 {
		t.Errorf("who decides is told %d times of what is known", told)
	}
	h.image = "2"
	if err := h.pass(); err != nil {
		t.Fatal(err)
	}
	if told == 0 || done {
		t.Errorf("of a change, who decides is told %d times; done: %t", told, done)
	}
}

// TestWhoWaitsForTheEndHearsOfIt has a rollout become done while a binding of it is looked at.
func TestWhoWaitsForTheEndHearsOfIt(t *testing.T) {
	h := newHub(t)
	h.look()
	e := h.stages.entries[client.ObjectKeyFromObject(h.rollout)]
	if !e.outcome.Done {
		t.Fatalf("it is not done: %+v", e.outcome)
	}
	var touched []types.NamespacedName
	h.stages.Touched = func(name types.NamespacedName) { touched = append(touched, name) }
	name := client.ObjectKeyFromObject(h.binding)
	p := &stagePass{s: h.stages, e: e, name: name, in: StageInput{Binding: h.binding}, works: map[string]*workv1.ManifestWork{"c": {}}}
	if err := p.deleteSurplus(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(touched, []types.NamespacedName{name}) {
		t.Errorf("%v are looked at again, and cluster c loses nothing", touched)
	}
}

// TestManyRolloutsDoNotHoldUpTheStart starts with a thousand rollouts of a tenant that are
// of the same policy, before which no binding of anybody is looked at.
func TestManyRolloutsDoNotHoldUpTheStart(t *testing.T) {
	const rivals = 1000
	h := newHub(t)
	h.sent("at first", h.look(), "a 1 x2, b 1 x2")
	h.image = "2"
	h.sent("before the restart", h.look("a"), "a 2 x2, b 1 x2")
	for n := range rivals {
		rival := h.rollout.DeepCopy()
		rival.Name, rival.UID, rival.ResourceVersion = fmt.Sprintf("web-%d", n), types.UID(fmt.Sprint(n)), ""
		if err := h.Create(h.Context(), rival); err != nil {
			t.Fatal(err)
		}
	}
	h.lists, h.touched = 0, 0
	h.restart()
	if h.lists > 2 || h.touched > 2 {
		t.Errorf("revisions were listed %d times, and the binding was to be looked at %d times", h.lists, h.touched)
	}
	h.sent("after the restart", h.look("a"), "a 2 x2, b 1 x2")
	if stored := h.revisions(); len(stored) != 2 {
		t.Errorf("stored are %v, want what was before and what is", stored)
	}
}
