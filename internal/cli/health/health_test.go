// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/health"
)

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "message of " + reason, ObservedGeneration: 2}
}

func TestCluster(t *testing.T) {
	accepted := condition(clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionTrue, "HubClusterAdminAccepted")
	joined := condition(clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue, "ManagedClusterJoined")
	available := condition(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue, "ManagedClusterAvailable")
	cases := map[string]struct {
		reason     string
		accepts    bool
		deleted    bool
		conditions []metav1.Condition
		want       metav1.ConditionStatus
		because    string
	}{
		"accepted, joined and available": {
			reason: "all is well", accepts: true, conditions: []metav1.Condition{accepted, joined, available}, want: metav1.ConditionTrue,
		},
		"new": {reason: "nobody has let it in", want: metav1.ConditionFalse, because: health.WaitingForAcceptance},
		"denied, though its agent still says that it is well": {
			reason:     "the hub's word counts",
			conditions: []metav1.Condition{condition(clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionFalse, health.Denied), joined, available},
			want:       metav1.ConditionFalse, because: health.Denied,
		},
		"denied a moment ago": {
			reason: "the hub's controller has not acted, and the cluster is out nevertheless", conditions: []metav1.Condition{accepted, joined, available},
			want: metav1.ConditionFalse, because: health.Denied,
		},
		"accepted a moment ago": {reason: "the hub's controller has not acted", accepts: true, want: metav1.ConditionUnknown, because: health.AcceptancePending},
		"accepted, but its namespace belongs to something else": {
			reason: "the hub says what is in the way", accepts: true,
			conditions: []metav1.Condition{condition(clusterv1.ManagedClusterConditionHubAccepted, metav1.ConditionFalse, clusterv1.ManagedClusterReasonNamespaceUnusable)},
			want:       metav1.ConditionFalse, because: clusterv1.ManagedClusterReasonNamespaceUnusable,
		},
		"accepted before its agent came": {
			reason: "an administrator may accept in advance", accepts: true, conditions: []metav1.Condition{accepted},
			want: metav1.ConditionFalse, because: health.WaitingForAgent,
		},
		"joined, and nothing said yet": {
			reason: "the first report takes a moment", accepts: true, conditions: []metav1.Condition{accepted, joined},
			want: metav1.ConditionUnknown, because: health.NoReport,
		},
		"not heard of": {
			reason: "neither well nor broken", accepts: true,
			conditions: []metav1.Condition{accepted, joined, condition(clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown, "ManagedClusterLeaseUpdateStopped")},
			want:       metav1.ConditionUnknown, because: "ManagedClusterLeaseUpdateStopped",
		},
		"being deleted": {
			reason: "however well it is", accepts: true, deleted: true, conditions: []metav1.Condition{accepted, joined, available},
			want: metav1.ConditionFalse, because: health.Deleting,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: c.accepts}}
			cluster.Status.Conditions = c.conditions
			if c.deleted {
				cluster.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			check(t, c.reason, health.ClusterReadiness(cluster), c.want, c.because)
		})
	}
}

func TestWork(t *testing.T) {
	applied := condition(workv1.ManifestWorkConditionApplied, metav1.ConditionTrue, "AppliedManifestWorkComplete")
	available := condition(workv1.ManifestWorkConditionAvailable, metav1.ConditionTrue, "ResourcesAvailable")
	old := applied
	old.ObservedGeneration = 1
	cases := map[string]struct {
		reason     string
		deleted    bool
		conditions []metav1.Condition
		want       metav1.ConditionStatus
		because    string
	}{
		"applied and available": {reason: "all is well", conditions: []metav1.Condition{applied, available}, want: metav1.ConditionTrue},
		"new":                   {reason: "no agent has looked at it", want: metav1.ConditionUnknown, because: health.NotSeen},
		"changed a moment ago": {
			reason: "what stands there is about the work before the change", conditions: []metav1.Condition{old, available},
			want: metav1.ConditionUnknown, because: health.OutOfDate,
		},
		"an object is not applied": {
			reason:     "that comes before what follows from it",
			conditions: []metav1.Condition{condition("Available", metav1.ConditionFalse, "ResourcesNotAvailable"), condition("Applied", metav1.ConditionFalse, "AppliedManifestWorkFailed")},
			want:       metav1.ConditionFalse, because: "AppliedManifestWorkFailed",
		},
		"an object is broken": {
			reason: "health counts where it is known", conditions: []metav1.Condition{applied, available, condition("Degraded", metav1.ConditionTrue, "CrashLoopBackOff")},
			want: metav1.ConditionFalse, because: "CrashLoopBackOff",
		},
		"an object is on its way": {
			reason: "it is not there yet", conditions: []metav1.Condition{applied, available, condition("Progressing", metav1.ConditionTrue, "RollingOut")},
			want: metav1.ConditionFalse, because: "RollingOut",
		},
		"health is not known": {
			reason:     "that it cannot be told does not make it broken",
			conditions: []metav1.Condition{applied, available, condition("Degraded", metav1.ConditionUnknown, "HealthUnknown"), condition("Mine", metav1.ConditionFalse, "Mine")},
			want:       metav1.ConditionTrue,
		},
		"being deleted": {reason: "however well it is", deleted: true, conditions: []metav1.Condition{applied, available}, want: metav1.ConditionFalse, because: health.Deleting},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			work.Status.Conditions = c.conditions
			if c.deleted {
				work.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			check(t, c.reason, health.WorkReadiness(work), c.want, c.because)
		})
	}
}

func check(t *testing.T, reason string, got health.ReadinessState, want metav1.ConditionStatus, because string) {
	t.Helper()
	if got.Ready != want || got.Reason != because {
		t.Errorf("%s: got %+v, want %s because %q", reason, got, want, because)
	}
	if (got.Message == "") != (want == metav1.ConditionTrue) {
		t.Errorf("%s: the message %q should be there if and only if it is not ready", reason, got.Message)
	}
}

func TestConditionsAreInTheOrderInWhichThingsHappen(t *testing.T) {
	var got []string
	for _, c := range health.SortConditions([]metav1.Condition{{Type: "Zebra"}, {Type: "Degraded"}, {Type: "Ape"}, {Type: "Available"}, {Type: "Applied"}}) {
		got = append(got, c.Type)
	}
	if diff := cmp.Diff([]string{"Applied", "Available", "Degraded", "Ape", "Zebra"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFineKnowsWhichStatusIsGood(t *testing.T) {
	for condition, want := range map[metav1.Condition]bool{
		{Type: "Applied", Status: metav1.ConditionTrue}:       true,
		{Type: "Applied", Status: metav1.ConditionFalse}:      false,
		{Type: "Degraded", Status: metav1.ConditionFalse}:     true,
		{Type: "Degraded", Status: metav1.ConditionTrue}:      false,
		{Type: "Progressing", Status: metav1.ConditionFalse}:  true,
		{Type: "Complete", Status: metav1.ConditionTrue}:      false,
		{Type: "WorksMissing", Status: metav1.ConditionFalse}: true,
		{Type: "WorksMissing", Status: metav1.ConditionTrue}:  false,
		{Type: "Mine", Status: metav1.ConditionTrue}:          false,
	} {
		if got := health.IsConditionFine(condition); got != want {
			t.Errorf("%s=%s: got %t, want %t", condition.Type, condition.Status, got, want)
		}
	}
}

func TestPlacement(t *testing.T) {
	satisfied := condition(clusterv1beta1.PlacementConditionSatisfied, metav1.ConditionTrue, "AllDecisionsScheduled")
	right := condition(clusterv1beta1.PlacementConditionMisconfigured, metav1.ConditionFalse, "Succeedconfigured")
	wrong := condition(clusterv1beta1.PlacementConditionMisconfigured, metav1.ConditionTrue, "Misconfigured")
	old := wrong
	old.ObservedGeneration = 1
	stale := satisfied
	stale.ObservedGeneration = 1
	cases := map[string]struct {
		reason     string
		conditions []metav1.Condition
		want       metav1.ConditionStatus
		because    string
	}{
		"satisfied":                 {reason: "all is well", conditions: []metav1.Condition{satisfied, right}, want: metav1.ConditionTrue},
		"new":                       {reason: "nobody has looked", want: metav1.ConditionUnknown, because: health.NotSeen},
		"changed":                   {reason: "nobody has looked since", conditions: []metav1.Condition{stale, right}, want: metav1.ConditionUnknown, because: health.OutOfDate},
		"wrong":                     {reason: "the choice is that of the spec before", conditions: []metav1.Condition{stale, wrong}, want: metav1.ConditionFalse, because: "Misconfigured"},
		"mended a moment ago":       {reason: "the mistake may be gone", conditions: []metav1.Condition{stale, old}, want: metav1.ConditionUnknown, because: health.OutOfDate},
		"fewer clusters than asked": {reason: "somebody waits for them", conditions: []metav1.Condition{condition(clusterv1beta1.PlacementConditionSatisfied, metav1.ConditionFalse, "NotAllDecisionsScheduled"), right}, want: metav1.ConditionFalse, because: "NotAllDecisionsScheduled"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: clusterv1beta1.PlacementStatus{Conditions: c.conditions}}
			if got := health.PlacementReadiness(p); got.Ready != c.want || got.Reason != c.because {
				t.Errorf("%s: got %+v, want %s because of %q", c.reason, got, c.want, c.because)
			}
		})
	}
}

func TestReplicaSet(t *testing.T) {
	verified := condition(workv1alpha1.ConditionPlacementVerified, metav1.ConditionTrue, "AsExpected")
	rolledOut := condition(workv1alpha1.ConditionPlacementRolledOut, metav1.ConditionTrue, "Complete")
	applied := condition(workv1alpha1.ConditionManifestworkApplied, metav1.ConditionTrue, "AsExpected")
	rolling := condition(workv1alpha1.ConditionPlacementRolledOut, metav1.ConditionFalse, "Progressing")
	stale := verified
	stale.ObservedGeneration = 1
	cases := map[string]struct {
		reason     string
		conditions []metav1.Condition
		want       metav1.ConditionStatus
		because    string
	}{
		"rolled out":      {reason: "all is well", conditions: []metav1.Condition{applied, rolledOut, verified}, want: metav1.ConditionTrue},
		"new":             {reason: "nobody has looked", want: metav1.ConditionUnknown, because: health.NotSeen},
		"changed":         {reason: "nobody has looked since", conditions: []metav1.Condition{stale, rolledOut, applied}, want: metav1.ConditionUnknown, because: health.OutOfDate},
		"no placement":    {reason: "the rest follows from that", conditions: []metav1.Condition{condition(workv1alpha1.ConditionPlacementVerified, metav1.ConditionFalse, "PlacementDecisionNotFound"), rolling}, want: metav1.ConditionFalse, because: "PlacementDecisionNotFound"},
		"in a rollout":    {reason: "not all have it", conditions: []metav1.Condition{verified, rolling, applied}, want: metav1.ConditionFalse, because: "Progressing"},
		"an invalid name": {reason: "nothing else is said", conditions: []metav1.Condition{condition(workv1alpha1.ConditionManifestworkApplied, metav1.ConditionFalse, "InvalidManifestWorkName")}, want: metav1.ConditionFalse, because: "InvalidManifestWorkName"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: workv1alpha1.ManifestWorkReplicaSetStatus{Conditions: c.conditions}}
			if got := health.ReplicaSetReadiness(set); got.Ready != c.want || got.Reason != c.because {
				t.Errorf("%s: got %+v, want %s because of %q", c.reason, got, c.want, c.because)
			}
		})
	}
}
