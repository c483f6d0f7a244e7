// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// cached returns a work of a namespace as the cache has it, after somebody has changed how it is deleted.
func cached(t *testing.T, written *workv1.ManifestWork, preserves bool) *workv1.ManifestWork {
	t.Helper()
	work := written.DeepCopy()
	if !preserves {
		work.Spec.DeleteOption = nil
	}
	slim, err := deliver.SlimWork(work)
	expect.NoError(t, err)
	return slim.(*workv1.ManifestWork) //nolint:forcetypeassert // it is one
}

// writtenWork returns the work of a namespace with a label, as the hub writes it.
func writtenWork(t *testing.T, label string) *workv1.ManifestWork {
	t.Helper()
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "hostile", Name: deliver.NamespaceWorkName("shop"), Labels: map[string]string{deliver.LabelNamespace: "shop"}}}
	work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"kind":"Namespace","metadata":{"labels":{"a":%q}}}`, label)}}}
	changes, err := deliver.CompareWorks(map[string]*workv1.ManifestWork{"hostile": work}, nil, nil)
	expect.NoError(t, err)
	return changes.New[0]
}

// TestWorksThatFlapLeaveWorkersToOthers has an agent change the work of a namespace for ten minutes, four hundred times in each,
// and the hub write it again. Each look at a namespace is one at all of its clusters.
func TestWorksThatFlapLeaveWorkersToOthers(t *testing.T) {
	const minutes, perMinute = 10, 400
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	watched := NewNamespaceController(NamespaceDeps{Clock: clk}).onWork()
	is, undone := cached(t, writtenWork(t, "x"), true), cached(t, writtenWork(t, "x"), false)
	q := &looks{}
	for range minutes * perMinute / 2 {
		watched.Update(t.Context(), event.UpdateEvent{ObjectOld: is, ObjectNew: undone}, q)
		watched.Update(t.Context(), event.UpdateEvent{ObjectOld: undone, ObjectNew: is}, q)
		clk.SetTime(clk.Now().Add(2 * time.Minute / perMinute))
	}
	if most := fleet.HeardAtOnce + minutes; q.now == 0 || q.now > most || q.after == 0 || q.after > fleet.HeardEvery {
		t.Errorf("the namespace is looked at %d times at once, want some, and %d at most; the last after %s, want %s at most", q.now, most, q.after, fleet.HeardEvery)
	}
	deleted := undone.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: clk.Now()}
	for what, changed := range map[string]*workv1.ManifestWork{"writes something else": cached(t, writtenWork(t, "y"), true), "deletes it": deleted} {
		q := &looks{}
		watched.Update(t.Context(), event.UpdateEvent{ObjectOld: undone, ObjectNew: changed}, q)
		if q.now == 0 || q.after > 0 {
			t.Errorf("the hub %s, and the namespace is looked at %d times at once, the last time after %s", what, q.now, q.after)
		}
	}
	q = &looks{}
	watched.Create(t.Context(), event.CreateEvent{Object: is}, q)
	watched.Delete(t.Context(), event.DeleteEvent{Object: is}, q)
	if q.now != 2 {
		t.Errorf("a work that comes and goes brings the namespace back %d times", q.now)
	}
}

// TestARestlessClusterHoldsUpNoOther has the agent of one cluster change its work back each time, while another cluster has no
// namespace on the hub yet.
func TestARestlessClusterHoldsUpNoOther(t *testing.T) {
	const shop = "shop"
	scheme := runtime.NewScheme()
	expect.NoError(t, errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme),
		policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme), workv1.AddToScheme(scheme)))
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	accepted := clusterv1.ManagedClusterSpec{HubAcceptsClient: true}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}, Spec: accepted},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: accepted},
	).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if object.GetNamespace() == "lost" {
				return apierrors.NewNotFound(corev1.Resource("namespaces"), "lost")
			}
			return c.Create(ctx, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if found, is := list.(*workv1.ManifestWorkList); is {
				for i := range found.Items {
					found.Items[i] = *cached(t, &found.Items[i], found.Items[i].Spec.DeleteOption != nil)
				}
			}
			return err
		},
	}).WithIndex(&workv1.ManifestWork{}, IndexNamespace, func(object client.Object) []string { return []string{deliver.OfNamespace(object)} }).Build()
	controller := NewNamespaceController(NamespaceDeps{
		Client: c, Live: c, Writer: send.WorkWriter{Client: c, Live: c, Created: ownwrites.NewCreatedWorks(clk), Restless: send.NewRestlessWorks(clk)},
		Allowance: allowance.NewAllowance(clk, allowance.DefaultShared, 1), Events: events.NewDiscardRecorder(), Clock: clk, Everywhere: true, Fleet: fleet.NewFleet(clk),
	})
	again := time.Duration(0)
	for look := range 20 {
		result, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: shop}})
		if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > awaitAccepted {
			t.Fatalf("look %d: again in %s (%v), want %s at most and no error", look, result.RequeueAfter, err, awaitAccepted)
		}
		again = result.RequeueAfter
		work := &workv1.ManifestWork{}
		expect.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "hostile", Name: deliver.NamespaceWorkName(shop)}, work))
		work.Spec.DeleteOption = nil
		expect.NoError(t, c.Update(t.Context(), work))
	}
	if again != awaitCalm {
		t.Errorf("a work that is changed back each time is looked at again in %s, want %s", again, awaitCalm)
	}
}

// toldEvents are the events that are told, by what makes them the same.
type toldEvents map[string]int

func (e toldEvents) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	of := regarding.(*clusterv1.ManagedCluster) //nolint:forcetypeassert // it is about a cluster
	e[fmt.Sprint(of.Name, of.UID, of.ResourceVersion, eventType, reason, fmt.Sprintf(note, args...))]++
}

// TestWhatAClusterRevertsIsToldOnce has the agents of some clusters change the works of 700 namespaces back each time, and their
// ManagedClusters meanwhile.
func TestWhatAClusterRevertsIsToldOnce(t *testing.T) {
	const clusters, namespaces = 3, 700
	scheme := runtime.NewScheme()
	expect.NoError(t, clusterv1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	told := toldEvents{}
	controller := NewNamespaceController(NamespaceDeps{Client: c, Events: events.NewRecorder(told), Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))})
	for of := range clusters {
		cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("hostile-", of), UID: types.UID(fmt.Sprint(of))}}
		expect.NoError(t, c.Create(t.Context(), cluster))
		for n := range namespaces {
			if n%100 == 0 {
				cluster.Labels = map[string]string{"said": fmt.Sprint(n)}
				expect.NoError(t, c.Update(t.Context(), cluster))
			}
			reverted := &send.RestlessError{Work: types.NamespacedName{Namespace: cluster.Name, Name: fmt.Sprint("work-", n)}}
			failed := map[string]error{cluster.Name: reverted}
			if result := controller.retryClusters(t.Context(), failed, 0); result.RequeueAfter != awaitCalm || len(failed) > 0 {
				t.Fatalf("it is looked at again in %s, with errors %v, want %s and none", result.RequeueAfter, failed, awaitCalm)
			}
		}
	}
	if len(told) != clusters {
		t.Errorf("%d events are told of %d works in %d clusters: %v", len(told), namespaces, clusters, told)
	}
}

// TestWhoWaitsForAClusterThatRevertsComesLast has clusters that revert works, one that has no namespace yet, and an error of the hub.
func TestWhoWaitsForAClusterThatRevertsComesLast(t *testing.T) {
	scheme := runtime.NewScheme()
	expect.NoError(t, clusterv1.AddToScheme(scheme))
	controller := NewNamespaceController(NamespaceDeps{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))})
	reverted, other := &send.RestlessError{Again: time.Minute}, errors.New("the hub is busy")
	for name, test := range map[string]struct {
		failed map[string]error
		again  time.Duration
		want   time.Duration
		last   bool
	}{
		"nothing else":        {map[string]error{"a": reverted, "b": &send.RestlessError{Again: time.Hour}}, 0, time.Minute, true},
		"soon":                {map[string]error{"a": &send.RestlessError{}}, 0, awaitCalm, true},
		"a turn":              {map[string]error{"a": reverted}, time.Hour, time.Minute, false},
		"another cluster":     {map[string]error{"a": reverted, "b": send.ErrNoNamespace}, 0, awaitAccepted, false},
		"an error of the hub": {map[string]error{"b": other}, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			result := controller.retryClusters(t.Context(), test.failed, test.again)
			if result.RequeueAfter != test.want || result.Priority != nil != test.last {
				t.Errorf("it is looked at again in %s, after all others: %t, want %s and %t", result.RequeueAfter, result.Priority != nil, test.want, test.last)
			}
			if left := len(test.failed) > 0; left != errors.Is(test.failed["b"], other) {
				t.Errorf("errors are left: %v", test.failed)
			}
		})
	}
}
