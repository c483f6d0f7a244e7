// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestPatienceWithAnAgent(t *testing.T) {
	deleted := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	is := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status}
	}
	joined := is(clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue)
	silent := is(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown)
	well := is(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue)
	unwell := is(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionFalse)
	cases := map[string]struct {
		reason     string
		conditions []metav1.Condition
		denied     bool
		forced     bool
		deadline   string
		after      time.Duration
		over       bool
		left       time.Duration
		says       string
	}{
		"an agent that answers": {
			reason: "it will clean up, whatever the deadline", conditions: []metav1.Condition{joined, well}, deadline: "0s",
		},
		"a cluster that never joined": {
			reason: "nothing was delivered", over: true, says: "ever joined",
		},
		"a cluster that never joined and has run out of time": {
			reason: "nothing was delivered", conditions: []metav1.Condition{silent}, over: true, says: "ever joined",
		},
		"a silent agent": {
			reason: "waits, and says how to go on", conditions: []metav1.Condition{joined, silent}, after: time.Hour,
			says: clusterv1.AnnotationDetachDeadline,
		},
		"a silent agent before its deadline": {
			reason: "waits for the rest", conditions: []metav1.Condition{joined, silent}, deadline: "5m", after: time.Minute,
			left: 4 * time.Minute, says: "5m0s",
		},
		"a silent agent after its deadline": {
			reason: "gives up", conditions: []metav1.Condition{joined, silent}, deadline: "5m", after: 5 * time.Minute, over: true, says: "has passed",
		},
		"a cluster that is not well": {
			reason: "waits, and says how to go on", conditions: []metav1.Condition{joined, unwell}, after: time.Hour,
			says: clusterv1.AnnotationDetachDeadline,
		},
		"a cluster that is not well after its deadline": {
			reason: "the push agent says so of one that it does not reach", conditions: []metav1.Condition{joined, unwell}, deadline: "0s", over: true,
			says: "not available",
		},
		"a deadline that is none": {
			reason: "waits, and says what is wrong", conditions: []metav1.Condition{joined, silent}, deadline: "soon", says: `"soon"`,
		},
		"a cluster that is well and forced": {
			reason: "somebody does not want to wait", conditions: []metav1.Condition{joined, well}, forced: true, over: true, says: "forced",
		},
		"a denied cluster": {
			reason: "its agent may not clean up", conditions: []metav1.Condition{joined, well}, denied: true, says: "does not accept",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{
				ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: deleted}},
				Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: !c.denied},
				Status:     clusterv1.ManagedClusterStatus{Conditions: c.conditions},
			}
			if c.deadline != "" {
				mc.Annotations = map[string]string{clusterv1.AnnotationDetachDeadline: c.deadline}
			}
			if c.forced {
				mc.Annotations = map[string]string{fleetv1alpha1.AnnotationForceDetach: "true"}
			}
			got := patienceWith(mc, deleted.Add(c.after))
			if got.over != c.over || got.left != c.left || !strings.Contains(got.why, c.says) || (c.says == "") != (got.why == "") {
				t.Errorf("%s: got %+v", c.reason, got)
			}
		})
	}
}

func TestTheLowestPriorityGoesFirst(t *testing.T) {
	object := func(name, priority string) metav1.PartialObjectMetadata {
		o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if priority != "" {
			o.Annotations = map[string]string{clusterv1.AnnotationCleanupPriority: priority}
		}
		return o
	}
	batch := lowestPriority([]metav1.PartialObjectMetadata{
		object("late", "100"), object("absent", ""), object("middle", "10"), object("invalid", "x"), object("beyond", "101"), object("zero", "0"),
	})
	if diff := cmp.Diff([]string{"absent", "beyond", "invalid", "zero"}, objectNames(batch)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if batch := lowestPriority([]metav1.PartialObjectMetadata{object("late", "100")}); len(batch) != 1 {
		t.Errorf("the highest priority is never deleted: %v", batch)
	}
}

func TestOnlyOurFinalizersAreTakenOff(t *testing.T) {
	got := foreignFinalizers([]string{
		clusterv1.FinalizerManifestWorkCleanup, "foregroundDeletion", "open-cluster-management.io/x",
		"example.com/keep", "evil-open-cluster-management.io/keep",
	})
	want := []string{"foregroundDeletion", "example.com/keep", "evil-open-cluster-management.io/keep"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestParseKindsRefusesWhatIsNoResource(t *testing.T) {
	if _, err := ParseKinds(DefaultKinds()); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "manifestworks", "a/b", "a/b/c/d", "a//c", "a/b/"} {
		if _, err := ParseKinds([]string{bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
