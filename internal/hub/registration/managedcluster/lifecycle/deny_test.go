// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
)

func TestANewClusterGetsItsRoleWhenItIsNotAcceptedSoon(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	denied := []metav1.Condition{{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue}}
	cases := map[string]struct {
		reason     string
		automatic  bool
		conditions []metav1.Condition
		age        time.Duration
		want       bool
	}{
		"an administrator decides":        {reason: "nothing comes soon", want: true},
		"it may be accepted at once":      {reason: "one write instead of two", automatic: true, age: time.Second},
		"it was not accepted":             {reason: "its agent must see when it is", automatic: true, age: acceptedSoon, want: true},
		"it was accepted and denied soon": {reason: "what it has is taken at once", automatic: true, conditions: denied, want: true},
		"the clock of the hub was changed": {
			reason: "it is looked at again all the same", automatic: true, age: -time.Hour,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{rbacv1.AddToScheme, clusterv1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", CreationTimestamp: metav1.NewTime(created)}}
			mc.Status.Conditions = tc.conditions
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mc).WithStatusSubresource(mc).Build()
			controller := New(Deps{
				Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(created.Add(tc.age)),
				Events: events.NewFakeRecorder(1), Automatic: tc.automatic,
			})
			result, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "east"}})
			if err != nil {
				t.Fatal(err)
			}
			err = c.Get(t.Context(), client.ObjectKey{Name: grants.ClusterRoleName("east")}, &rbacv1.ClusterRole{})
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if got := !apierrors.IsNotFound(err); got != tc.want {
				t.Errorf("has a role: %t, want %t: %s", got, tc.want, tc.reason)
			}
			if again := result.RequeueAfter; (again > 0) == tc.want || again > acceptedSoon {
				t.Errorf("looked at again after %s: %s", again, tc.reason)
			}
		})
	}
}
