// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/lease"
)

// hubWith returns a hub that has the object, and knows clusters and leases.
func hubWith(t *testing.T, object client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(object).WithObjects(object).Build()
}

func TestALeaseThatIsNotRenewedMakesTheClusterUnknown(t *testing.T) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	clk := clocktesting.NewFakePassiveClock(start)
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east"},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true, LeaseDurationSeconds: 10},
		Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
			{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue},
			{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue},
		}},
	}
	c := hubWith(t, mc)
	recorder := events.NewFakeRecorder(10)
	controller := lease.NewHeartbeatController(c, clk, recorder)
	reconcile := func(want time.Duration) {
		t.Helper()
		result, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(mc)})
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter != want {
			t.Errorf("looks again after %s, want %s", result.RequeueAfter, want)
		}
	}
	available := func(want metav1.ConditionStatus) {
		t.Helper()
		have := &clusterv1.ManagedCluster{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(mc), have); err != nil {
			t.Fatal(err)
		}
		if got := meta.FindStatusCondition(have.Status.Conditions, clusterv1.ManagedClusterConditionAvailable); got.Status != want {
			t.Errorf("Available is %s, want %s", got.Status, want)
		}
	}

	reconcile(0) // makes the lease, whose event brings it back
	have := &coordinationv1.Lease{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(grants.InitialLease("east", 10, start)), have); err != nil {
		t.Fatalf("the missing lease was not made: %v", err)
	}
	reconcile(50 * time.Second) // five durations: the timer, not a poll
	clk.SetTime(start.Add(49 * time.Second))
	reconcile(time.Second)
	available(metav1.ConditionTrue)

	clk.SetTime(start.Add(50 * time.Second))
	reconcile(10 * time.Second)
	available(metav1.ConditionUnknown)
	select {
	case <-recorder.Events:
	default:
		t.Error("no event tells that the lease ran out")
	}
	reconcile(10 * time.Second)
	select {
	case event := <-recorder.Events:
		t.Errorf("the same is told twice: %s", event)
	default:
	}

	restarted := lease.NewHeartbeatController(c, clk, recorder)
	result, err := restarted.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(mc)})
	if err != nil {
		t.Fatal(err)
	}
	if result.RequeueAfter != 10*time.Second {
		t.Errorf("a new controller gives agents %s to renew, want one duration", result.RequeueAfter)
	}
}

// TestARenewalInTimesToComeIsNotBelieved has an agent say that it renews its lease in 2100, and go.
func TestARenewalInTimesToComeIsNotBelieved(t *testing.T) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	clk := clocktesting.NewFakePassiveClock(start)
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east"},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true, LeaseDurationSeconds: 10},
	}
	c := hubWith(t, mc)
	heartbeat := grants.InitialLease("east", 10, start)
	if err := c.Create(t.Context(), heartbeat); err != nil {
		t.Fatal(err)
	}
	controller := lease.NewHeartbeatController(c, clk, events.NewFakeRecorder(10))
	for i, step := range []struct {
		what         string
		after, wait  time.Duration
		renews, gone bool
	}{
		{what: "it is renewed", renews: true, wait: 50 * time.Second},
		{what: "it is looked at again", after: 10 * time.Second, wait: 40 * time.Second},
		{what: "it is renewed again", after: 40 * time.Second, renews: true, wait: 50 * time.Second},
		{what: "nothing comes any more", after: 50 * time.Second, gone: true, wait: 10 * time.Second},
	} {
		clk.SetTime(clk.Now().Add(step.after))
		if step.renews {
			heartbeat.Spec.RenewTime = &metav1.MicroTime{Time: time.Date(2100+i, 1, 1, 0, 0, 0, 0, time.UTC)}
			if err := c.Update(t.Context(), heartbeat); err != nil {
				t.Fatal(err)
			}
		}
		result, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(mc)})
		if err != nil || result.RequeueAfter != step.wait {
			t.Errorf("%s: looks again after %s with error %v, want %s", step.what, result.RequeueAfter, err, step.wait)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(mc), mc); err != nil {
			t.Fatal(err)
		}
		if gone := meta.IsStatusConditionPresentAndEqual(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown); gone != step.gone {
			t.Errorf("%s: the cluster is missed: %t, want %t", step.what, gone, step.gone)
		}
	}
}
