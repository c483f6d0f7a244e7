// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package managedclusterset_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/hub/registration/managedclusterset/binding"
	"github.com/capstan-io/capstan/internal/hub/registration/managedclusterset/builtin"
	"github.com/capstan-io/capstan/internal/hub/registration/managedclusterset/members"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// hub is an API server whose objects the controllers reconcile when a test says so, and not
// before: there is no manager, no cache, and one Reconcile at a time.
type hub struct {
	*testing.T
	client.Client
}

// admins are clients of an API server, on which each test has objects of its own.
var admins = env.NewFixtures(servers, func(t testing.TB) client.Client {
	t.Helper()
	_, config := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../../config/crd"} })
	return cluster.NewClient(t, config, clusterv1.AddToScheme, clusterv1beta2.AddToScheme)
})

// reconcile calls the controller for one object.
func (h hub) reconcile(controller reconcile.Reconciler, obj client.Object) error {
	_, err := controller.Reconcile(h.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	return err
}

func (h hub) must(err error) {
	h.Helper()
	expect.NoError(h, err)
}

// create creates an object that the test takes away again, finalizers and all.
func (h hub) create(obj client.Object) {
	h.Helper()
	h.must(h.Create(h.Context(), obj))
	h.Cleanup(func() {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		ctx := context.WithoutCancel(h.Context())
		if err := errors.Join(client.IgnoreNotFound(h.Patch(ctx, obj, patch)), client.IgnoreNotFound(h.Delete(ctx, obj))); err != nil {
			h.Error(err)
		}
	})
}

// condition checks a condition of an object, as conditions returns them.
func (h hub) condition(obj client.Object, conditions *[]metav1.Condition, want metav1.Condition) {
	h.Helper()
	*conditions = nil
	h.must(h.Get(h.Context(), client.ObjectKeyFromObject(obj), obj))
	got := meta.FindStatusCondition(*conditions, want.Type)
	if got == nil || got.Status != want.Status || got.Reason != want.Reason || got.Message != want.Message || got.ObservedGeneration != obj.GetGeneration() {
		h.Errorf("%s of %s is %+v at generation %d, want %+v", want.Type, obj.GetName(), got, obj.GetGeneration(), want)
	}
}

func (h hub) cluster(name, set string) *clusterv1.ManagedCluster {
	h.Helper()
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterSet: set}}}
	h.create(cluster)
	return cluster
}

func TestABindingTellsWhetherItsSetExists(t *testing.T) {
	h := hub{T: t, Client: admins.TakeFixture(t)}
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	b := &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "late"},
		Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "late"},
	}
	h.create(b)
	controller := binding.NewClusterSetBindingController(h)
	bound := metav1.Condition{
		Type: clusterv1beta2.ManagedClusterSetBindingConditionBound, Status: metav1.ConditionFalse,
		Reason: clusterv1beta2.ManagedClusterSetBindingReasonNotFound, Message: `there is no ManagedClusterSet "late"`,
	}
	h.must(h.reconcile(controller, b))
	h.condition(b, &b.Status.Conditions, bound)

	h.create(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
	bound.Status, bound.Reason, bound.Message = metav1.ConditionTrue, clusterv1beta2.ManagedClusterSetBindingReasonBound, "the ManagedClusterSet exists"
	h.must(h.reconcile(controller, b))
	h.condition(b, &b.Status.Conditions, bound)
	h.must(h.reconcile(controller, &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "none"}}))
}

func TestTheBuiltInSetsAreMadeAndChangedBack(t *testing.T) {
	h := hub{T: t, Client: admins.TakeFixture(t)}
	controller := builtin.NewPredefinedSetController(h, true)
	global := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: clusterv1.GlobalClusterSet}}
	byDefault := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: clusterv1.DefaultClusterSet}}
	for set, kind := range map[*clusterv1beta2.ManagedClusterSet]clusterv1beta2.SelectorType{
		global: clusterv1beta2.SelectorTypeLabelSelector, byDefault: clusterv1beta2.SelectorTypeExclusiveClusterSetLabel,
	} {
		h.must(h.reconcile(controller, set))
		h.must(h.Get(h.Context(), client.ObjectKeyFromObject(set), set))
		h.Cleanup(func() { h.must(h.Delete(context.WithoutCancel(h.Context()), set)) })
		if got := set.Spec.ClusterSelector.SelectorType; got != kind {
			h.Errorf("set %s selects by %s, want %s", set.Name, got, kind)
		}
	}

	narrowed := func() bool {
		h.must(h.Get(h.Context(), client.ObjectKeyFromObject(global), global))
		return len(global.Spec.ClusterSelector.LabelSelector.MatchLabels) > 0
	}
	global.Spec.ClusterSelector.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}
	h.must(h.Update(h.Context(), global))
	h.must(h.reconcile(controller, global))
	if narrowed() {
		h.Error("set global selects some clusters only")
	}
	// Whoever says so keeps his change.
	global.Annotations = map[string]string{clusterv1.AnnotationAutoUpdate: "false"}
	global.Spec.ClusterSelector.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}
	h.must(h.Update(h.Context(), global))
	h.must(h.reconcile(controller, global))
	if !narrowed() {
		h.Errorf("set global was changed back in spite of annotation %s", clusterv1.AnnotationAutoUpdate)
	}
}

func TestTheDefaultSetIsThereOnlyIfItIsAskedFor(t *testing.T) {
	h := hub{T: t, Client: admins.TakeFixture(t)}
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: clusterv1.DefaultClusterSet}}
	h.must(h.reconcile(builtin.NewPredefinedSetController(h, false), set))
	if err := h.Get(h.Context(), client.ObjectKeyFromObject(set), set); !apierrors.IsNotFound(err) {
		h.Errorf("the default set was made: %v", err)
	}
}

func TestASetTellsHowManyClustersItSelects(t *testing.T) {
	h := hub{T: t, Client: admins.TakeFixture(t)}
	exclusive := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
	h.create(exclusive)
	controller := members.NewClusterSetMemberController(h)
	empty := metav1.Condition{
		Type: clusterv1beta2.ManagedClusterSetConditionEmpty, Status: metav1.ConditionTrue,
		Reason: clusterv1beta2.ManagedClusterSetReasonNoClusterMatched, Message: "No ManagedCluster selected",
	}
	h.must(h.reconcile(controller, exclusive))
	h.condition(exclusive, &exclusive.Status.Conditions, empty)

	h.cluster("c1", "blue")
	h.cluster("c2", "blue")
	h.cluster("c3", "green")
	h.must(h.reconcile(controller, exclusive))
	h.condition(exclusive, &exclusive.Status.Conditions, metav1.Condition{
		Type: clusterv1beta2.ManagedClusterSetConditionEmpty, Status: metav1.ConditionFalse,
		Reason: clusterv1beta2.ManagedClusterSetReasonClustersSelected, Message: "2 ManagedClusters selected",
	})

	// A selector that nobody can read is said in the status, and not tried again.
	broken := &clusterv1beta2.ManagedClusterSet{
		ObjectMeta: metav1.ObjectMeta{Name: "broken"},
		Spec: clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: clusterv1beta2.ManagedClusterSelector{
			SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpIn}},
			},
		}},
	}
	h.create(broken)
	err := h.reconcile(controller, broken)
	if !errors.Is(err, reconcile.TerminalError(nil)) {
		h.Fatalf("got %v, want an error that is not tried again", err)
	}
	h.must(h.Get(h.Context(), client.ObjectKeyFromObject(broken), broken))
	got := meta.FindStatusCondition(broken.Status.Conditions, empty.Type)
	if got == nil || !strings.Contains(got.Message, "spec.clusterSelector.labelSelector") {
		h.Errorf("the status does not say what is wrong: %+v", got)
	}
}

func TestASetThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	h := hub{T: t, Client: admins.TakeFixture(t)}
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "going", Finalizers: []string{"example.com/held"}}}
	h.create(set)
	h.must(h.Delete(h.Context(), set))
	h.must(h.reconcile(members.NewClusterSetMemberController(h), set))
	h.must(h.Get(h.Context(), client.ObjectKeyFromObject(set), set))
	if len(set.Status.Conditions) > 0 {
		h.Errorf("its status was written: %+v", set.Status.Conditions)
	}
}
