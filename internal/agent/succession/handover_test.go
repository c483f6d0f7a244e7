// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package succession

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/registration/handover"
)

const hubURL = "https://hub.example.com:6443"

func recordOf(name, hub, agent string) *workv1.AppliedManifestWork {
	return &workv1.AppliedManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: workv1.AppliedManifestWorkSpec{HubHash: workv1.HubHash(hub), AgentID: agent},
	}
}

func TestAHandoverIsOverWhenNothingIsLeft(t *testing.T) {
	h := NewHandoverFollower(&fleet.Connection{AgentID: "new", Predecessor: "old", HubHost: hubURL})
	deleted := recordOf("deleted", hubURL, "old")
	deleted.DeletionTimestamp = &metav1.Time{}
	for _, step := range []struct {
		what string
		do   func()
		over bool
	}{
		{"one of another hub", func() { h.ObserveRecord(recordOf("x", "https://other.example.com", "old")) }, false},
		{"one of another agent", func() { h.ObserveRecord(recordOf("y", hubURL, "third")) }, false},
		{"nothing is left, and not all is known", func() { h.ObserveRecord(recordOf("a", hubURL, "new")) }, false},
		{"two are left", func() {
			h.ObserveRecord(recordOf("b", hubURL, "old"))
			h.ObserveRecord(recordOf("deleted", hubURL, "old"))
		}, false},
		{"all are known", h.MarkListed, false},
		{"one is taken over", func() { h.ObserveRecord(recordOf("b", hubURL, "new")) }, false},
		{"the other one is being deleted", func() { h.ObserveRecord(deleted) }, true},
	} {
		step.do()
		if h.ended != step.over {
			t.Fatalf("%s: it is over: %t, want %t", step.what, h.ended, step.over)
		}
	}
}

func TestWithoutRecordsAHandoverIsOverAtOnce(t *testing.T) {
	h := NewHandoverFollower(&fleet.Connection{AgentID: "new", Predecessor: "old", HubHost: hubURL})
	h.MarkListed()
	if !h.ended {
		t.Error("it waits for records that there are not")
	}
}

func TestTheMarkTellsWhoWasBefore(t *testing.T) {
	mark := handover.NewMark("hash", "cluster")
	if got := formerAgent(mark, "me"); got != "" {
		t.Errorf("without a mark there was %q", got)
	}
	handover.RecordTakeover(mark, "push", "pull")
	for agent, want := range map[string]string{"push": "pull", "pull": "push", "new": "push"} {
		if got := formerAgent(mark, agent); got != want {
			t.Errorf("before %s there was %q, want %q", agent, got, want)
		}
	}
}
