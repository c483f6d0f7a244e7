// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/staging"
	"github.com/capstan-io/capstan/internal/propagation/staged"
)

func TestReport(t *testing.T) {
	t.Parallel()
	way := staged.RolloutOutcome{Stage: 1, Stages: 3, Group: "canary", Total: 10, Pending: 6, Healthy: 2}
	waits := way
	waits.Healthy, waits.After = 4, time.Date(2026, 3, 1, 12, 5, 0, 0, time.UTC)
	failed := staged.RolloutOutcome{Total: 10, Pending: 8, Failed: map[string]string{"b": "no image", "a": "no quota"}, Stopped: "2 clusters have failed, more than 1"}
	done := staged.RolloutOutcome{Total: 10, Healthy: 10, Done: true}
	for name, c := range map[string]struct {
		progress staging.RolloutProgress
		paused   bool
		wrong    bool
		absent   string
		// accepted, complete and progressing are STATUS REASON.
		accepted, complete, progressing string
		message                         string
	}{
		"a group has its turn": {
			progress: staging.RolloutProgress{RolloutOutcome: way}, accepted: "True Accepted", complete: "False RollingOut", progressing: "True RollingOut",
			message: `The rollout is at group "canary": 4 of 10 clusters have the latest change, and 2 of these are healthy.`,
		},
		"only time lets it go on": {
			progress: staging.RolloutProgress{RolloutOutcome: waits}, accepted: "True Accepted", complete: "False RollingOut", progressing: "True RollingOut",
			message: `The rollout is at group "canary": 4 of 10 clusters have the latest change, and 4 of these are healthy. If nothing changes, it is decided again at 2026-03-01T12:05:00Z.`,
		},
		"the last group": {
			progress: staging.RolloutProgress{RolloutOutcome: staged.RolloutOutcome{Total: 2}}, accepted: "True Accepted", complete: "False RollingOut", progressing: "True RollingOut",
			message: "The rollout is at the clusters in no group",
		},
		"all have it": {
			progress: staging.RolloutProgress{RolloutOutcome: done}, accepted: "True Accepted", complete: "True AllHealthy", progressing: "False AllHealthy",
			message: "10 of 10 clusters have the latest change and are healthy.",
		},
		"too many have failed": {
			progress: staging.RolloutProgress{RolloutOutcome: failed}, accepted: "True Accepted", complete: "False TooManyFailures", progressing: "False TooManyFailures",
			message: "2 clusters have failed, more than 1. a: no quota; b: no image.",
		},
		"it is paused": {
			progress: staging.RolloutProgress{RolloutOutcome: way}, paused: true, accepted: "True Accepted", complete: "False Paused", progressing: "False Paused",
			message: "6 of 10 clusters do not have the latest change: spec.paused is set.",
		},
		"nothing is left to pause": {
			progress: staging.RolloutProgress{RolloutOutcome: staged.RolloutOutcome{Total: 2}}, paused: true, accepted: "True Accepted", complete: "False RollingOut", progressing: "True RollingOut",
		},
		"it is being undone": {
			progress: staging.RolloutProgress{RolloutOutcome: way, Undone: 1}, accepted: "True Accepted", complete: "False Undoing", progressing: "True Undoing",
			message: "Clusters get back what they had before.",
		},
		"it is undone": {
			progress: staging.RolloutProgress{RolloutOutcome: done, Undone: 1, Revision: 7}, accepted: "True Accepted", complete: "False Undone", progressing: "False Undone",
			message: "All clusters have what they had before revision 7.",
		},
		"nothing can be undone": {
			progress: staging.RolloutProgress{RolloutOutcome: way, Held: 1, Objects: 2}, accepted: "True Accepted", complete: "False Paused", progressing: "False Paused",
			message: "spec.undo has no effect on 1 of 2 objects: their clusters had nothing before, or it is not stored. 6 of 10 clusters do not have the latest change",
		},
		"there is no room for revisions": {
			progress: staging.RolloutProgress{RolloutOutcome: way, Unstored: 1, Objects: 2}, accepted: "True RevisionsFull", complete: "False RollingOut", progressing: "True RollingOut",
		},
		"an older one has the target": {
			progress: staging.RolloutProgress{Rival: &staging.RolloutKey{Name: "older"}}, accepted: "False Conflict", complete: "False NotAccepted", progressing: "False NotAccepted",
			message: `Rollout "older" has the same target and is older: delete one of them.`,
		},
		"nothing has the target": {
			absent: "There is no policy.", accepted: "False TargetNotFound", complete: "False NotAccepted", progressing: "False NotAccepted", message: "There is no policy.",
		},
		"it is wrong": {
			wrong: true, accepted: "False Invalid", complete: "False NotAccepted", progressing: "False NotAccepted", message: "No cluster gets a change until this is fixed: ",
		},
	} {
		r := &fleetv1alpha1.PropagationRollout{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
		r.Spec.Policy, r.Spec.Paused = &fleetv1alpha1.RolloutPolicy{Name: "web"}, c.paused
		if c.wrong {
			r.Spec.MaxConcurrency = new(intstr.FromString("many"))
		}
		reportProgress(r, c.progress, c.absent)
		for kind, want := range map[string]string{
			fleetv1alpha1.PropagationRolloutConditionAccepted: c.accepted, fleetv1alpha1.PropagationRolloutConditionComplete: c.complete,
			fleetv1alpha1.PropagationRolloutConditionProgressing: c.progressing,
		} {
			got := meta.FindStatusCondition(r.Status.Conditions, kind)
			if got == nil || fmt.Sprint(got.Status, " ", got.Reason) != want || got.ObservedGeneration != 3 {
				t.Errorf("%s: %s is %+v, want %s", name, kind, got, want)
			}
		}
		if got := meta.FindStatusCondition(r.Status.Conditions, fleetv1alpha1.PropagationRolloutConditionComplete); !strings.HasPrefix(got.Message, c.message) {
			t.Errorf("%s: Complete says %q, want %q", name, got.Message, c.message)
		}
	}
}

// TestReportOfAStart has a controller that does not know yet how far clusters are.
func TestReportOfAStart(t *testing.T) {
	t.Parallel()
	r := &fleetv1alpha1.PropagationRollout{}
	r.Spec.Policy = &fleetv1alpha1.RolloutPolicy{Name: "web"}
	reportProgress(r, staging.RolloutProgress{Revision: 4, Objects: 2, RolloutOutcome: staged.RolloutOutcome{Stage: 1, Stages: 3, Total: 5, Healthy: 5, Done: true}}, "")
	known := r.DeepCopy()
	reportProgress(r, staging.RolloutProgress{Revision: 3, Objects: 2, RolloutOutcome: staged.RolloutOutcome{Starting: true}}, "")
	if !sameStatus(known, r) {
		t.Errorf("the status was %+v and is %+v", known.Status, r.Status)
	}
	if r.Status.Stage != "1/3" || r.Status.Clusters.Healthy != 5 || r.Status.Clusters.Total != 5 {
		t.Errorf("the status is %+v", r.Status)
	}
}

func TestFailuresAreNotToldWithoutEnd(t *testing.T) {
	t.Parallel()
	p := staging.RolloutProgress{RolloutOutcome: staged.RolloutOutcome{Failed: map[string]string{"long": strings.Repeat("é", whyBytesMax)}}}
	for i := range 9 {
		p.Failed[fmt.Sprint("c", i)] = "no"
	}
	text := describeFailures(p)
	if !strings.HasPrefix(text, "c0: no; c1: no; ") || !strings.HasSuffix(text, "; and 5 more.") || strings.Contains(text, "long") {
		t.Errorf("of ten clusters it says %q", text)
	}
	clear(p.Failed)
	p.Failed["long"] = "x" + strings.Repeat("é", whyBytesMax)
	if text := describeFailures(p); len(text) > whyBytesMax+20 || !strings.HasSuffix(text, "é….") {
		t.Errorf("of a long message it says %d bytes that end with %q", len(text), text[len(text)-10:])
	}
}
