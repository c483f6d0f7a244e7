// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalancer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/rebalancer"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// scene is a hub at noon.
type scene struct {
	*testing.T
	client client.Client
	clock  *clocktesting.FakePassiveClock
	// refuse is what the API server says to a patch of a binding of this name.
	refuse map[string]error
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, clock: clocktesting.NewFakePassiveClock(noon()), refuse: map[string]error{}}
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&appsv1alpha1.WorkloadRebalancer{}).
		WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := s.refuse[object.GetName()]; err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		}}).Build()
	return s
}

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func at(minutes int) *metav1.Time {
	return &metav1.Time{Time: noon().Add(time.Duration(minutes) * time.Minute)}
}

func web() appsv1alpha1.ObjectReference {
	return appsv1alpha1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
}

func node() appsv1alpha1.ObjectReference {
	return appsv1alpha1.ObjectReference{APIVersion: "example.com/v1", Kind: "Quota", Name: "all"}
}

// another has the name and kind of web, in another group.
func another() appsv1alpha1.ObjectReference {
	return appsv1alpha1.ObjectReference{APIVersion: "other.io/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
}

// binding returns the binding of an object, with the usual name or the one that is
// for the second of that name.
func binding(of appsv1alpha1.ObjectReference, suffixed bool, asked *metav1.Time) client.Object {
	spec := workv1alpha2.ResourceBindingSpec{
		Resource:              workv1alpha2.ObjectReference{APIVersion: of.APIVersion, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name, UID: "u"},
		RescheduleTriggeredAt: asked,
	}
	names := claims.BindingNames(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind), of.Name)
	usual := names[0]
	if suffixed {
		usual = names[1]
	}
	if of.Namespace == "" {
		return &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: usual}, Spec: spec}
	}
	return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: usual}, Spec: spec}
}

// rebalance returns a rebalancer that was created at noon.
func rebalance(of ...appsv1alpha1.ObjectReference) *appsv1alpha1.WorkloadRebalancer {
	return &appsv1alpha1.WorkloadRebalancer{
		ObjectMeta: metav1.ObjectMeta{Name: "now", Generation: 1, CreationTimestamp: *at(0)},
		Spec:       appsv1alpha1.WorkloadRebalancerSpec{Workloads: of},
	}
}

func (s *scene) reconcile() (ctrl.Result, error) {
	return rebalancer.NewWorkloadRebalancerController(s.client, s.clock).Reconcile(s.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "now"}})
}

func (s *scene) status() appsv1alpha1.WorkloadRebalancerStatus {
	s.Helper()
	r := &appsv1alpha1.WorkloadRebalancer{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Name: "now"}, r); err != nil {
		s.Fatal(err)
	}
	return r.Status
}

// asked returns when a binding was told to have its clusters chosen anew.
func (s *scene) asked(of client.Object) *metav1.Time {
	s.Helper()
	if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(of), of); err != nil {
		s.Fatal(err)
	}
	return of.(workv1alpha2.Binding).BindingSpec().RescheduleTriggeredAt
}

func successful(of appsv1alpha1.ObjectReference) appsv1alpha1.ObservedWorkload {
	return appsv1alpha1.ObservedWorkload{Workload: of, Result: appsv1alpha1.RebalanceSuccessful}
}

func failed(of appsv1alpha1.ObjectReference) appsv1alpha1.ObservedWorkload {
	return appsv1alpha1.ObservedWorkload{Workload: of, Result: appsv1alpha1.RebalanceFailed, Reason: appsv1alpha1.ReferencedBindingNotFound}
}

func TestWhatARebalancerAsksFor(t *testing.T) {
	elsewhere := web()
	elsewhere.Namespace = "other"
	newer := web()
	newer.APIVersion = "apps/v1beta1"
	for name, c := range map[string]struct {
		workloads []appsv1alpha1.ObjectReference
		bindings  []client.Object
		asked     []*metav1.Time // of each binding
		want      []appsv1alpha1.ObservedWorkload
	}{
		"an object":                     {[]appsv1alpha1.ObjectReference{web()}, []client.Object{binding(web(), false, nil)}, []*metav1.Time{at(0)}, []appsv1alpha1.ObservedWorkload{successful(web())}},
		"one without a namespace":       {[]appsv1alpha1.ObjectReference{node()}, []client.Object{binding(node(), false, nil)}, []*metav1.Time{at(0)}, []appsv1alpha1.ObservedWorkload{successful(node())}},
		"one by another version":        {[]appsv1alpha1.ObjectReference{newer}, []client.Object{binding(web(), false, nil)}, []*metav1.Time{at(0)}, []appsv1alpha1.ObservedWorkload{successful(newer)}},
		"one that was asked for before": {[]appsv1alpha1.ObjectReference{web()}, []client.Object{binding(web(), false, at(-1))}, []*metav1.Time{at(0)}, []appsv1alpha1.ObservedWorkload{successful(web())}},
		"one that was asked for later":  {[]appsv1alpha1.ObjectReference{web()}, []client.Object{binding(web(), false, at(1))}, []*metav1.Time{at(1)}, []appsv1alpha1.ObservedWorkload{successful(web())}},
		"one in another namespace":      {[]appsv1alpha1.ObjectReference{elsewhere}, []client.Object{binding(web(), false, nil)}, []*metav1.Time{nil}, []appsv1alpha1.ObservedWorkload{failed(elsewhere)}},
		"one that nobody sends":         {[]appsv1alpha1.ObjectReference{web()}, nil, nil, []appsv1alpha1.ObservedWorkload{failed(web())}},
		"the first of two of one name":  {[]appsv1alpha1.ObjectReference{web()}, []client.Object{binding(web(), false, nil), binding(another(), true, nil)}, []*metav1.Time{at(0), nil}, []appsv1alpha1.ObservedWorkload{successful(web())}},
		"the second of two of one name": {[]appsv1alpha1.ObjectReference{another()}, []client.Object{binding(web(), false, nil), binding(another(), true, nil)}, []*metav1.Time{nil, at(0)}, []appsv1alpha1.ObservedWorkload{successful(another())}},
		"several, each once, sorted":    {[]appsv1alpha1.ObjectReference{web(), elsewhere, node(), web()}, []client.Object{binding(web(), false, nil), binding(node(), false, nil)}, []*metav1.Time{at(0), at(0)}, []appsv1alpha1.ObservedWorkload{failed(elsewhere), successful(web()), successful(node())}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, append(c.bindings, rebalance(c.workloads...))...)
			if _, err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			for n, b := range c.bindings {
				if got := s.asked(b); !got.Equal(c.asked[n]) {
					t.Errorf("binding %s was asked for at %v, want %v", b.GetName(), got, c.asked[n])
				}
			}
			want := appsv1alpha1.WorkloadRebalancerStatus{ObservedWorkloads: c.want, ObservedGeneration: 1, FinishTime: at(0)}
			if diff := cmp.Diff(want, s.status()); diff != "" {
				t.Errorf("the status (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsTakenOutStaysIfItWasAskedFor takes an object of each result out of the spec.
func TestWhatIsTakenOutStaysIfItWasAskedFor(t *testing.T) {
	s := newScene(t, binding(web(), false, nil), binding(node(), false, nil), rebalance(web(), node(), another()))
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]appsv1alpha1.ObservedWorkload{successful(web()), successful(node()), failed(another())}, s.status().ObservedWorkloads); diff != "" {
		t.Fatalf("before (-want +got):\n%s", diff)
	}
	r := &appsv1alpha1.WorkloadRebalancer{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "now"}, r); err != nil {
		t.Fatal(err)
	}
	r.Spec.Workloads, r.Generation = []appsv1alpha1.ObjectReference{node()}, 2
	if err := s.client.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	want := appsv1alpha1.WorkloadRebalancerStatus{
		ObservedWorkloads: []appsv1alpha1.ObservedWorkload{successful(web()), successful(node())}, ObservedGeneration: 2, FinishTime: at(0),
	}
	if diff := cmp.Diff(want, s.status()); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
}

// TestTheStatusDoesNotGrowForEver has a rebalancer that was about more objects before than
// its status keeps.
func TestTheStatusDoesNotGrowForEver(t *testing.T) {
	r := rebalance(web())
	r.Generation = 2
	for n := range 1500 {
		of := node()
		of.Name = fmt.Sprintf("all-%04d", n)
		r.Status.ObservedWorkloads = append(r.Status.ObservedWorkloads, successful(of))
	}
	s := newScene(t, binding(web(), false, nil), r)
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := s.status().ObservedWorkloads; len(got) != 1001 || got[0].Workload != web() || got[1000].Workload.Name != "all-0999" {
		t.Errorf("got %d objects, from %v to %v", len(got), got[0], got[len(got)-1])
	}
}

// TestAFailedWriteIsNoResult has the API server refuse one of two bindings once.
func TestAFailedWriteIsNoResult(t *testing.T) {
	first, second := binding(node(), false, nil), binding(web(), false, nil)
	s := newScene(t, first, second, rebalance(node(), web()))
	s.refuse[first.GetName()] = apierrors.NewServiceUnavailable("the server is busy")
	if _, err := s.reconcile(); err == nil {
		t.Error("it is not tried again")
	}
	if diff := cmp.Diff(appsv1alpha1.WorkloadRebalancerStatus{ObservedWorkloads: []appsv1alpha1.ObservedWorkload{successful(web())}}, s.status()); diff != "" {
		t.Errorf("the status while it fails (-want +got):\n%s", diff)
	}
	delete(s.refuse, first.GetName())
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	want := appsv1alpha1.WorkloadRebalancerStatus{
		ObservedWorkloads: []appsv1alpha1.ObservedWorkload{successful(web()), successful(node())}, ObservedGeneration: 1, FinishTime: at(0),
	}
	if diff := cmp.Diff(want, s.status()); diff != "" {
		t.Errorf("the status in the end (-want +got):\n%s", diff)
	}
}

// TestAChangedRebalancerGoesOn has what had failed and what was added looked at, and
// what was done left alone.
func TestAChangedRebalancerGoesOn(t *testing.T) {
	first := binding(web(), false, nil)
	s := newScene(t, first, rebalance(web(), node()))
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	second := binding(another(), true, nil)
	for _, object := range []client.Object{second, binding(node(), false, nil)} {
		if err := s.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.client.Delete(t.Context(), first); err != nil { // it is not looked at again
		t.Fatal(err)
	}
	r := &appsv1alpha1.WorkloadRebalancer{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "now"}, r); err != nil {
		t.Fatal(err)
	}
	if _, err := s.reconcile(); err != nil || s.status().ObservedWorkloads[1].Result != appsv1alpha1.RebalanceFailed {
		t.Fatalf("one that has finished does not look again: got %v, %v", s.status(), err)
	}
	r.Spec.Workloads, r.Generation = append(r.Spec.Workloads, another()), 2
	if err := s.client.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.clock.SetTime(at(5).Time)
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	want := appsv1alpha1.WorkloadRebalancerStatus{
		ObservedWorkloads: []appsv1alpha1.ObservedWorkload{successful(web()), successful(node()), successful(another())}, ObservedGeneration: 2, FinishTime: at(5),
	}
	if diff := cmp.Diff(want, s.status()); diff != "" {
		t.Errorf("the status (-want +got):\n%s", diff)
	}
	if got := s.asked(second); !got.Equal(at(0)) {
		t.Errorf("what was added was asked for at %v", got)
	}
}

func TestWhenARebalancerIsDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		seconds *int32
		later   time.Duration // than it has finished
		gone    bool
		wait    time.Duration
	}{
		"never":            {nil, 1000 * time.Hour, false, 0},
		"at once":          {new(int32(0)), 0, true, 0},
		"not yet":          {new(int32(60)), 20 * time.Second, false, 40 * time.Second},
		"when it is due":   {new(int32(60)), 60 * time.Second, true, 0},
		"when it is later": {new(int32(60)), time.Hour, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := rebalance(web())
			r.Spec.TTLSecondsAfterFinished = c.seconds
			s := newScene(t, binding(web(), false, nil), r)
			if _, err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			s.clock.SetTime(noon().Add(c.later))
			result, err := s.reconcile()
			if err != nil || result.RequeueAfter != c.wait {
				t.Errorf("got %v, %v; want to look again in %s", result, err, c.wait)
			}
			err = s.client.Get(t.Context(), client.ObjectKeyFromObject(r), r)
			if apierrors.IsNotFound(err) != c.gone {
				t.Errorf("reading it: %v; want gone: %t", err, c.gone)
			}
		})
	}
}
