// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

func TestClocksThatDifferTooMuchAreOutOfSync(t *testing.T) {
	hub := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const limit = 5 * time.Minute
	cases := map[string]struct {
		reason string
		agent  time.Duration
		want   metav1.ConditionStatus
	}{
		"the same time":             {reason: "no difference", want: metav1.ConditionTrue},
		"an agent that is behind":   {reason: "below the limit", agent: -limit + time.Second, want: metav1.ConditionTrue},
		"an agent far behind":       {reason: "the limit itself counts", agent: -limit, want: metav1.ConditionFalse},
		"an agent from the future":  {reason: "both directions count", agent: limit, want: metav1.ConditionFalse},
		"an agent a little too new": {reason: "below the limit", agent: limit - time.Second, want: metav1.ConditionTrue},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := compareClocks(hub, hub.Add(c.agent), limit); got.Status != c.want {
				t.Errorf("%s: got %s, want %s", c.reason, got.Status, c.want)
			}
		})
	}
}

func TestTheAnnotationFreesAClusterWhoseClockWasOutOfSync(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	cases := map[string]struct {
		reason     string
		skip       string
		wantStatus metav1.ConditionStatus
	}{
		"without the annotation the verdict stays": {reason: "the clocks still differ", wantStatus: metav1.ConditionFalse},
		"with the annotation the verdict is taken back": {
			reason: "the agent reports nothing while it is False", skip: "true", wantStatus: metav1.ConditionTrue,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Annotations: map[string]string{}}}
			mc.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.ManagedClusterConditionClockSynced, Status: metav1.ConditionFalse,
				Reason: clusterv1.ManagedClusterReasonClockOutOfSync, LastTransitionTime: metav1.NewTime(now),
			}}
			if c.skip != "" {
				mc.Annotations[clusterv1.AnnotationSkipClockSyncCheck] = c.skip
			}
			renewed := metav1.NewMicroTime(now.Add(-24 * time.Hour))
			heartbeat := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: clusterv1.LeaseName, Namespace: "c1"},
				Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
			}
			scheme := runtime.NewScheme()
			if err := errors.Join(clusterv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			fakeClient := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mc, heartbeat).WithStatusSubresource(mc).Build()
			controller := NewClusterClockController(fakeClient, clocktesting.NewFakePassiveClock(now))
			if _, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(heartbeat)}); err != nil {
				t.Fatal(err)
			}
			if err := fakeClient.Get(t.Context(), client.ObjectKeyFromObject(mc), mc); err != nil {
				t.Fatal(err)
			}
			if got := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionClockSynced); got == nil || got.Status != c.wantStatus {
				t.Errorf("%s: got %+v, want %s", c.reason, got, c.wantStatus)
			}
		})
	}
}
