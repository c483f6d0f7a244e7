// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// Clients of OCM compare the whole struct: DesiredTotal and Updated stay 0.
func TestSummaries(t *testing.T) {
	with := func(names ...string) *workv1.ManifestWork {
		work := &workv1.ManifestWork{}
		for _, name := range names {
			work.Status.Conditions = append(work.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue})
		}
		return work
	}
	var got workv1alpha1.ManifestWorkReplicaSetSummary
	for _, work := range []*workv1.ManifestWork{
		with(), with(workv1.ManifestWorkConditionApplied),
		with(workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionAvailable, workv1.ManifestWorkConditionProgressing),
		with(workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionAvailable, workv1.ManifestWorkConditionDegraded),
		with(workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionAvailable, workv1.ManifestWorkConditionDegraded),
	} {
		countWork(&got, work)
	}
	want := workv1alpha1.ManifestWorkReplicaSetSummary{Total: 5, Applied: 4, Available: 3, Degraded: 2, Progressing: 1, DesiredTotal: 0, Updated: 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAMessageSaysUntilWhenWorksHaveToStaySuccessful(t *testing.T) {
	one := rollout.Strategy{Kind: rollout.Progressive, MaxConcurrency: intstr.FromInt32(1)}
	slow := one
	slow.MinSuccess = time.Hour
	until := at(120).Add(time.Hour).UTC().Format(time.RFC3339)
	const judged = ". Judged by conditions Applied and Available of the ManifestWorks, because they have no condition Progressing"
	for name, c := range map[string]struct {
		strategy rollout.Strategy
		after    time.Duration
		want     string
	}{
		"it has just succeeded": {slow, time.Second, ", 1 waiting for others. Works have to stay successful for minSuccessTime: a until " + until},
		"a second is left":      {slow, time.Hour - time.Second, ", 1 waiting for others. Works have to stay successful for minSuccessTime: a until " + until},
		"the time has passed":   {slow, time.Hour, ", 1 being changed"},
		"no time is asked for":  {one, time.Second, ", 1 being changed"},
	} {
		f := planFacts{
			Choices: []choice{chosen("p", c.strategy, []string{"a", "b"})}, Template: "new", Now: at(120).Add(c.after),
			Works: byCluster(workOf("a", "p", "new")), Joined: map[string]bool{"a": true, "b": true},
		}
		got, want := rolledOutCondition(planWrites(f).Progress, false), `Placement "p": 1 of 2 clusters succeeded`+c.want+judged
		if got.Reason != workv1alpha1.ReasonProgressing || got.Message != want {
			t.Errorf("%s: got %s:\n%s\nwant\n%s", name, got.Reason, got.Message, want)
		}
	}
}

func TestWhetherTheWorksAreAsExpected(t *testing.T) {
	empty := metav1.Condition{Reason: workv1alpha1.ReasonPlacementDecisionEmpty}
	cases := map[string]struct {
		sum      workv1alpha1.ManifestWorkReplicaSetSummary
		verified metav1.Condition
		wrong    []string
		failed   error
		reason   string
		text     string
	}{
		"all are available":        {sum: workv1alpha1.ManifestWorkReplicaSetSummary{Total: 2, Applied: 2, Available: 2}, reason: workv1alpha1.ReasonAsExpected, text: "all 2 ManifestWorks"},
		"one is progressing":       {sum: workv1alpha1.ManifestWorkReplicaSetSummary{Total: 2, Applied: 2, Available: 2, Progressing: 1}, reason: workv1alpha1.ReasonProcessing, text: "1 of 2 ManifestWorks"},
		"one is degraded":          {sum: workv1alpha1.ManifestWorkReplicaSetSummary{Total: 2, Applied: 2, Available: 2, Degraded: 1, Progressing: 1}, wrong: []string{"a (no room)"}, reason: workv1alpha1.ReasonNotAsExpected, text: "a (no room)"},
		"none was created yet":     {reason: workv1alpha1.ReasonNotAsExpected, text: "no ManifestWork yet"},
		"no cluster is chosen":     {verified: empty, reason: workv1alpha1.ReasonPlacementDecisionEmpty, text: "no cluster is chosen"},
		"one could not be written": {sum: workv1alpha1.ManifestWorkReplicaSetSummary{Total: 2, Applied: 2, Available: 2}, failed: errors.New("not allowed"), reason: workv1alpha1.ReasonNotAsExpected, text: "not allowed"},
		"one has not reported":     {sum: workv1alpha1.ManifestWorkReplicaSetSummary{Total: 1}, wrong: []string{"a (its agent has not reported yet)"}, reason: workv1alpha1.ReasonNotAsExpected, text: "has not reported"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := appliedCondition(tc.sum, tc.verified, tc.wrong, tc.failed)
			if (got.Status == metav1.ConditionTrue) != (tc.reason == workv1alpha1.ReasonAsExpected) || got.Reason != tc.reason || !strings.Contains(got.Message, tc.text) {
				t.Errorf("got %+v, want %s: …%s…", got, tc.reason, tc.text)
			}
		})
	}
}

// TestHeldWorksHaveReasonsOfTheirOwn has each reason for which the allowance of a namespace
// holds works back, and what condition ManifestworkApplied says.
func TestHeldWorksHaveReasonsOfTheirOwn(t *testing.T) {
	for _, tc := range []struct {
		why   allowance.HoldReason
		want  string
		lasts bool
	}{
		{allowance.Full, "NamespaceFull", true},
		{allowance.HubFull, "HubFull", true},
		{allowance.Throttled, "NamespaceThrottled", false},
	} {
		held := allowance.HeldWorks{Clusters: map[string]error{"cluster1": errors.New("no room")}, Reason: tc.why}
		is := summarizeStatus(planFacts{Namespace: "shop"}, rolloutPlan{}, planOutcome{Held: held})
		applied := meta.FindStatusCondition(is.Conditions, workv1alpha1.ConditionManifestworkApplied)
		if applied == nil || applied.Status != metav1.ConditionFalse || applied.Reason != tc.want || applied.Message != held.ConditionMessage() || is.Lasts != tc.lasts {
			t.Errorf("%s: %+v, lasts %t, want False, %s, lasts %t", tc.why, applied, is.Lasts, tc.want, tc.lasts)
		}
	}
}
