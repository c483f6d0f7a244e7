// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package continuous

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/rebalance"
)

func TestNothingMovesWhileChangesDoNotArriveOrTheObjectIsNotWell(t *testing.T) {
	dispatching := func(all *bool, on ...string) workv1alpha2.Suspension {
		return workv1alpha2.Suspension{Suspension: policyv1alpha1.Suspension{
			Dispatching: all, DispatchingOnClusters: &policyv1alpha1.SuspendClusters{ClusterNames: on},
		}}
	}
	applied := func(status metav1.ConditionStatus) *workv1alpha2.ResourceBinding {
		b := &workv1alpha2.ResourceBinding{}
		b.Status.Conditions = []metav1.Condition{{Type: workv1alpha2.BindingConditionFullyApplied, Status: status}}
		return b
	}
	suspended := func(s workv1alpha2.Suspension) *workv1alpha2.ResourceBinding {
		b := applied(metav1.ConditionTrue)
		b.Spec.Suspension = &s
		return b
	}
	are := func(health ...workv1alpha2.ResourceHealth) *workv1alpha2.ResourceBinding {
		b := applied(metav1.ConditionTrue)
		for _, each := range health {
			b.Status.AggregatedStatus = append(b.Status.AggregatedStatus, workv1alpha2.AggregatedStatusItem{Health: each})
		}
		return b
	}
	cases := map[string]struct {
		b    *workv1alpha2.ResourceBinding
		want bool
	}{
		"all clusters have it":                     {applied(metav1.ConditionTrue), false},
		"a cluster does not have it":               {applied(metav1.ConditionFalse), true},
		"nobody knows whether they have it":        {applied(metav1.ConditionUnknown), true},
		"it was never sent":                        {&workv1alpha2.ResourceBinding{}, true},
		"it is well everywhere":                    {are(workv1alpha2.ResourceHealthy, workv1alpha2.ResourceHealthy), false},
		"it is not well on one cluster":            {are(workv1alpha2.ResourceHealthy, workv1alpha2.ResourceUnhealthy), true},
		"nobody can tell whether its kind is well": {are(workv1alpha2.ResourceUnknown, ""), false},
		"changes are held back":                    {suspended(dispatching(new(true))), true},
		"changes are held back from one cluster":   {suspended(dispatching(nil, "a")), true},
		"changes are not held back any more":       {suspended(dispatching(new(false))), false},
		"changes are held back from no cluster":    {suspended(dispatching(nil)), false},
		"only the choice of clusters is held back": {suspended(workv1alpha2.Suspension{Scheduling: new(true)}), false}, // which package decide knows
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := isRebalanceHeld(tc.b); got != tc.want {
				t.Errorf("held: got %t, want %t", got, tc.want)
			}
		})
	}
}

// watched is a controller of a fleet with clusters a, b and c, at a time that the test
// sets.
type watched struct {
	*RebalanceController
	clock *clocktesting.FakePassiveClock
	set   rebalance.Settings
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{clock: clocktesting.NewFakePassiveClock(time.Unix(100_000, 0))}
	set, wrong := rebalance.ParseSettings(map[string]string{
		fleetv1alpha1.AnnotationRebalance: fleetv1alpha1.RebalanceContinuous, fleetv1alpha1.AnnotationRebalanceBudget: "1",
		fleetv1alpha1.AnnotationRebalanceWindow: "10m",
	})
	if set == nil {
		t.Fatal(wrong.ToAggregate())
	}
	w.set = *set
	w.RebalanceController = NewRebalanceController(RebalanceDeps{Fleet: fleet.NewFleet(w.clock), Clock: w.clock})
	for _, name := range []string{"a", "b", "c"} {
		w.are(metav1.ConditionTrue, name)
	}
	return w
}

// are makes clusters available, or not.
func (w *watched) are(available metav1.ConditionStatus, names ...string) {
	for _, name := range names {
		cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
		if available != "" {
			cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionAvailable, Status: available}}
		}
		w.Fleet.SetCluster(name, cluster)
	}
}

// sees looks at a binding that has four replicas on a, all of which were better off
// on b.
func (w *watched) sees(b *workv1alpha2.ResourceBinding) map[string]int32 {
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "a", Replicas: 4}, {Name: "c"}}
	if step := w.nextStep(b, rebalance.Replicas{"b": 4}, w.set); step != nil {
		return step.To
	}
	return nil
}

func TestWhatIsBetterForAWindowMoves(t *testing.T) {
	moves := map[string]int32{"a": 3, "b": 1}
	cases := map[string]struct {
		change func(*watched, *workv1alpha2.ResourceBinding) // before a window has passed
		want   map[string]int32
	}{
		"nothing happens meanwhile":                 {func(*watched, *workv1alpha2.ResourceBinding) {}, moves},
		"what is of no concern is not available":    {func(w *watched, _ *workv1alpha2.ResourceBinding) { w.are(metav1.ConditionFalse, "c") }, moves},
		"they do not leave what is not available":   {func(w *watched, _ *workv1alpha2.ResourceBinding) { w.are(metav1.ConditionFalse, "a") }, nil},
		"they do not go to what is not available":   {func(w *watched, _ *workv1alpha2.ResourceBinding) { w.are(metav1.ConditionUnknown, "b") }, nil},
		"they do not go to what has said nothing":   {func(w *watched, _ *workv1alpha2.ResourceBinding) { w.are("", "b") }, nil},
		"they do not go to what has left the fleet": {func(w *watched, _ *workv1alpha2.ResourceBinding) { w.Fleet.SetCluster("b", nil) }, nil},
		"what is forgotten starts anew":             {func(w *watched, b *workv1alpha2.ResourceBinding) { w.forgetState(client.ObjectKeyFromObject(b)) }, nil},
		"they stay for a window after they moved": {func(w *watched, b *workv1alpha2.ResourceBinding) {
			record := rebalance.MoveRecord{At: metav1.NewTime(w.clock.Now().Add(-w.set.Window + time.Second))}
			b.Annotations = map[string]string{fleetv1alpha1.AnnotationRebalanced: record.AnnotationText()}
		}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, b := newWatched(t), &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment"}}
			if got := w.sees(b); got != nil {
				t.Fatalf("%v moves at once", got)
			}
			w.clock.SetTime(w.clock.Now().Add(w.set.Window))
			tc.change(w, b)
			if diff := cmp.Diff(tc.want, w.sees(b)); diff != "" {
				t.Errorf("where the replicas are then, -want +got:\n%s", diff)
			}
		})
	}
}

// TestBindingsOfANamespaceHaveNotAllWorkers has many bindings of one tenant waiting, and then one of
// another.
func TestBindingsOfANamespaceHaveNotAllWorkers(t *testing.T) {
	with := options()
	q := with.NewQueue("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	for n := range 100 {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(n)}})
	}
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "bank", Name: "web"}})
	for range with.MaxConcurrentReconciles {
		if next, _ := q.Get(); next.Namespace == "bank" {
			return
		}
	}
	t.Errorf("%d workers look at bindings of one namespace", with.MaxConcurrentReconciles)
}

func TestBindingsOfOneNameDoNotMixUp(t *testing.T) {
	w := newWatched(t)
	one, other := &workv1alpha2.ResourceBinding{}, &workv1alpha2.ResourceBinding{}
	one.Namespace, one.Name, other.Namespace, other.Name = "shop", "web-deployment", "bank", "web-deployment"
	w.sees(one)
	w.clock.SetTime(w.clock.Now().Add(w.set.Window))
	if got := w.sees(other); got != nil {
		t.Errorf("%v moves at once, because the same would move in another namespace", got)
	}
}

const policyID = "5e7b1d3c"

// policy returns one that asks for replicas to move; without a namespace it is a
// ClusterPropagationPolicy.
func policy(namespace string) policyv1alpha1.Policy {
	asks := metav1.ObjectMeta{Namespace: namespace, Name: "all", Annotations: map[string]string{fleetv1alpha1.AnnotationRebalance: fleetv1alpha1.RebalanceContinuous}}
	if namespace == "" {
		asks.Labels = map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: policyID}
		return &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: asks}
	}
	asks.Labels = map[string]string{policyv1alpha1.LabelPropagationPolicyID: policyID}
	return &policyv1alpha1.PropagationPolicy{ObjectMeta: asks}
}

// binding returns the binding of a Deployment in the namespace, made for a policy.
func binding(namespace string, of policyv1alpha1.Policy) *workv1alpha2.ResourceBinding {
	marks := claims.MarksForPolicy(of)
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "web-deployment", Labels: marks.Labels, Annotations: marks.Annotations,
	}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "web"}
	return b
}

// hub returns a client of a hub that has these objects.
func hub(t *testing.T, objects ...any) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, object := range objects {
		builder.WithObjects(object.(client.Object))
	}
	return builder.Build()
}

func TestWhichPolicyIsAsked(t *testing.T) {
	mistaken, silent, another := policy("shop"), policy("shop"), policy("shop")
	mistaken.GetAnnotations()[fleetv1alpha1.AnnotationRebalanceWindow] = "1s"
	delete(silent.GetAnnotations(), fleetv1alpha1.AnnotationRebalance)
	another.GetLabels()[policyv1alpha1.LabelPropagationPolicyID] = "another"
	misnamed, going, foreign := binding("shop", policy("shop")), binding("shop", policy("shop")), binding("bank", policy("shop"))
	misnamed.Name = "forged"
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	cases := map[string]struct {
		policy policyv1alpha1.Policy
		b      *workv1alpha2.ResourceBinding
		want   bool
	}{
		"that of the binding":                       {policy("shop"), binding("shop", policy("shop")), true},
		"one for all namespaces":                    {policy(""), binding("shop", policy("")), true},
		"one that does not ask for it":              {silent, binding("shop", policy("shop")), false},
		"one with a mistake":                        {mistaken, binding("shop", policy("shop")), false},
		"one that was made anew":                    {another, binding("shop", policy("shop")), false},
		"one that is gone":                          {policy("other"), binding("shop", policy("shop")), false},
		"none, as the binding is going":             {policy("shop"), going, false},
		"none, as the hub names no binding like it": {policy("shop"), misnamed, false},
		"none, as it is of another namespace":       {policy("shop"), foreign, false},
		"none, as the binding names none":           {policy("shop"), &workv1alpha2.ResourceBinding{}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := NewRebalanceController(RebalanceDeps{Client: hub(t, tc.policy)}).settings(t.Context(), tc.b)
			if err != nil || (set != nil) != tc.want {
				t.Errorf("replicas move: got %t, want %t (%v)", set != nil, tc.want, err)
			}
		})
	}
}

func TestAPolicyLeadsToItsBindings(t *testing.T) {
	wide := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "web-deployment", Labels: claims.MarksForPolicy(policy("")).Labels}}
	unmarked := policy("shop")
	unmarked.GetLabels()[policyv1alpha1.LabelPropagationPolicyID] = ""
	nobodys := binding("lost", unmarked)
	of := func(namespace string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "web-deployment"}}
	}
	cases := map[string]struct {
		policy policyv1alpha1.Policy
		has    []any
		want   []reconcile.Request
	}{
		"only those of its namespace": {policy("shop"), []any{binding("shop", policy("shop")), binding("bank", policy("shop"))}, []reconcile.Request{of("shop")}},
		"all that it has claimed":     {policy(""), []any{binding("bank", policy("")), binding("shop", policy("")), wide}, []reconcile.Request{of("bank"), of("shop"), of("")}},
		"none of others":              {policy(""), []any{binding("shop", policy("shop")), nobodys}, nil},
		"none if it has no ID yet":    {unmarked, []any{nobodys, binding("shop", unmarked)}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := NewRebalanceController(RebalanceDeps{Client: hub(t, tc.has...)}).bindingsOfPolicy(t.Context(), tc.policy.(client.Object))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("bindings, -want +got:\n%s", diff)
			}
		})
	}
	if got := NewRebalanceController(RebalanceDeps{}).bindingsOfPolicy(t.Context(), wide); got != nil {
		t.Errorf("what is no policy leads to %v", got)
	}
}
