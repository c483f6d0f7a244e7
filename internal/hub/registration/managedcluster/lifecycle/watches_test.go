// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestOnlyChangesOfOthersMatter(t *testing.T) {
	state := func(accepts, held bool, says metav1.ConditionStatus) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: accepts}}
		if held {
			mc.Finalizers = []string{clusterv1.FinalizerAPIResourceCleanup}
		}
		if says != "" {
			setAccepted(mc, says, "Test", "")
		}
		return mc
	}
	const unsaid = metav1.ConditionStatus("")
	deleted := state(true, true, metav1.ConditionTrue)
	now := metav1.Now()
	deleted.DeletionTimestamp = &now
	cases := map[string]struct {
		reason        string
		before, after *clusterv1.ManagedCluster
		want          bool
	}{
		"our finalizer":          {"we are at work", state(true, false, unsaid), state(true, true, unsaid), false},
		"our condition":          {"we are done", state(true, true, unsaid), state(true, true, metav1.ConditionTrue), false},
		"a report of the agent":  {"it is not about acceptance", state(true, true, metav1.ConditionTrue), state(true, true, metav1.ConditionTrue), false},
		"acceptance":             {"of an administrator", state(false, false, unsaid), state(true, false, unsaid), true},
		"denial":                 {"of an administrator", state(true, true, metav1.ConditionTrue), state(false, true, metav1.ConditionTrue), true},
		"our finalizer is taken": {"it has to come back", state(true, true, metav1.ConditionTrue), state(true, false, metav1.ConditionTrue), true},
		"the condition is taken": {"it has to come back", state(true, true, metav1.ConditionTrue), state(true, true, unsaid), true},
		"a condition is forged":  {"the cluster is denied", state(false, true, metav1.ConditionFalse), state(false, true, metav1.ConditionTrue), true},
		"deletion":               {"it has to be finished", state(true, true, metav1.ConditionTrue), deleted, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := clusterMatters(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("got %t, want %t: %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestWhatIsMirroredIsNoNews(t *testing.T) {
	connection := func(change func(*fleetv1alpha1.ClusterConnection)) *fleetv1alpha1.ClusterConnection {
		c := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: 1}}
		change(c)
		return c
	}
	cases := map[string]struct {
		change func(*fleetv1alpha1.ClusterConnection)
		want   bool
	}{
		"what the hub mirrors": {func(c *fleetv1alpha1.ClusterConnection) {
			c.Generation, c.Labels, c.Cluster = 2, map[string]string{"a": "b"}, &fleetv1alpha1.ClusterProjection{UID: "uid"}
		}, false},
		"another mode": {func(c *fleetv1alpha1.ClusterConnection) {
			c.Generation, c.Spec.SyncMode = 2, fleetv1alpha1.SyncModePush
		}, true},
		"who it says to be": {func(c *fleetv1alpha1.ClusterConnection) { c.Status.ID = "id" }, true},
	}
	matter := (&ClusterLifecycleController{}).connectionMatters(t.Context())
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := connection(func(*fleetv1alpha1.ClusterConnection) {})
			if got := matter.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: connection(tc.change)}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
