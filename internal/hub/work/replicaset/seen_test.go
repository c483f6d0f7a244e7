// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// TestNoClusterHoldsUpOthersByTimes has the agent of cluster a write into its work, once a
// minute, times by which it would never be done. The rollout goes on with b all the same.
func TestNoClusterHoldsUpOthersByTimes(t *testing.T) {
	const wait = 10 * time.Minute
	deadline := wait
	one := rollout.Strategy{Kind: rollout.Progressive, MaxConcurrency: intstr.FromInt32(1), MaxFailures: intstr.FromInt32(1)}
	proving, limited := one, one
	proving.MinSuccess, limited.Deadline = wait, &deadline
	says := func(work *workv1.ManifestWork, now time.Time, name string, status metav1.ConditionStatus) {
		for i := range work.Status.Conditions {
			if c := &work.Status.Conditions[i]; c.Type == name {
				c.Status, c.LastTransitionTime = status, metav1.NewTime(now)
				return
			}
		}
		work.Status.Conditions = append(work.Status.Conditions, condition(name, status, 0))
		says := &work.Status.Conditions[len(work.Status.Conditions)-1]
		says.LastTransitionTime = metav1.NewTime(now)
	}
	for name, test := range map[string]struct {
		strategy rollout.Strategy
		write    func(work *workv1.ManifestWork, minute int, now time.Time)
	}{
		"it has just succeeded, each time": {proving, func(work *workv1.ManifestWork, _ int, now time.Time) {
			says(work, now, "Available", metav1.ConditionTrue)
		}},
		"its spec was written in the future": {proving, func(work *workv1.ManifestWork, _ int, now time.Time) {
			work.ManagedFields[0].Time = &metav1.Time{Time: now.Add(time.Hour)}
		}},
		"its spec was just written, each time": {limited, func(work *workv1.ManifestWork, _ int, now time.Time) {
			says(work, now, "Progressing", metav1.ConditionTrue)
			work.ManagedFields[0].Time = &metav1.Time{Time: now}
		}},
		"it fails, and does not, in turn": {limited, func(work *workv1.ManifestWork, minute int, now time.Time) {
			says(work, now, "Progressing", metav1.ConditionTrue)
			says(work, now, "Degraded", []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse}[minute%2])
		}},
		"it has another template in between": {limited, func(work *workv1.ManifestWork, minute int, now time.Time) {
			says(work, now, "Progressing", metav1.ConditionTrue)
			work.Annotations[keptHash] = []string{"new", "its own"}[minute%2]
			work.ManagedFields[0].Time = &metav1.Time{Time: now}
		}},
		"it has another template whenever it is looked at": {limited, func(work *workv1.ManifestWork, _ int, now time.Time) {
			work.Annotations[keptHash] = "its own"
			work.ManagedFields[0].Time = &metav1.Time{Time: now}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			set, sights, now := types.NamespacedName{Namespace: "apps", Name: "web"}, seenStates{}, at(1000).Time
			for minute := range 3 * int(wait/time.Minute) {
				now = now.Add(time.Minute)
				work := workOf("a", "p", "new")
				test.write(work, minute, now)
				f := planFacts{
					Choices: []choice{chosen("p", test.strategy, []string{"a", "b"})}, Works: byCluster(work), Joined: map[string]bool{"a": true, "b": true},
					Template: "new", Seen: sights.statesWithTemplate(set, "new"), Turns: sights.turnsWithTemplate(set, "new"), Now: now,
				}
				p := planWrites(f)
				sights.keepStates(set, f, p)
				sights.giveTurns(set, p.Writes)
				for _, w := range p.Writes {
					if w.Cluster == "b" {
						return
					}
				}
			}
			t.Errorf("after %s, b still waits for a", 3*wait)
		})
	}
}

// TestWhatTheCacheDoesNotShowYetIsNotWrittenAgain writes the template into the work of
// cluster a, of which the cache has still what was before.
func TestWhatTheCacheDoesNotShowYetIsNotWrittenAgain(t *testing.T) {
	set, sights := types.NamespacedName{Namespace: "apps", Name: "web"}, seenStates{}
	plans := func(version string) []workWrite {
		work := workOf("a", "p", "old")
		work.ResourceVersion = version
		f := planFacts{
			Choices: []choice{chosen("p", rollout.Strategy{Kind: rollout.All}, []string{"a"})}, Works: byCluster(work), Joined: map[string]bool{"a": true},
			Template: "new", Seen: sights.statesWithTemplate(set, "new"), Turns: sights.turnsWithTemplate(set, "new"), Now: at(1000).Time,
		}
		p := planWrites(f)
		sights.keepStates(set, f, p)
		sights.giveTurns(set, p.Writes)
		return p.Writes
	}
	if writes := plans("1"); len(writes) != 1 {
		t.Fatalf("at first, %d works were to be written", len(writes))
	}
	writes := plans("1")
	if len(writes) != 1 {
		t.Fatalf("after a write that failed, %d works were to be written", len(writes))
	}
	sights.recordWrite(set, writes[0])
	for range 2 {
		if writes := plans("1"); len(writes) != 0 {
			t.Error("what the cache does not show yet is written again")
		}
	}
	if writes := plans("2"); len(writes) != 1 {
		t.Error("what the member has changed back is not written again")
	}
}

// TestAnotherTemplateBeginsAnew has seen a cluster with one template.
func TestAnotherTemplateBeginsAnew(t *testing.T) {
	set, sights := types.NamespacedName{Namespace: "apps", Name: "web"}, seenStates{}
	states := map[string]templateState{"a": {ClusterState: rollout.ClusterState{Status: rollout.Succeeded, Since: at(1).Time}}, "b": {ClusterState: rollout.ClusterState{Status: rollout.ToApply}}}
	sights.keepStates(set, planFacts{Template: "old"}, rolloutPlan{Progress: []progress{{States: states}}})
	if got := sights.statesWithTemplate(set, "old"); len(got) != 1 || got["a"] != states["a"].ClusterState {
		t.Errorf("with the template, %v was seen", got)
	}
	if got := sights.statesWithTemplate(set, "new"); got != nil {
		t.Errorf("with another template, %v was seen", got)
	}
	sights.forgetReplicaSet(set)
	if got := sights.statesWithTemplate(set, "old"); got != nil {
		t.Errorf("of what is gone, %v was seen", got)
	}
}
