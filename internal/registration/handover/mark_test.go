// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestWhoTakesOverFromWhom(t *testing.T) {
	type turn struct{ agent, predecessor string }
	cases := map[string]struct {
		reason string
		turns  []turn
		// by is who takes over from each agent.
		by map[string]string
	}{
		"nobody has": {reason: "there is no mark", by: map[string]string{"pull": ""}},
		"to Push": {
			reason: "what the first agent delivered is another's", turns: []turn{{"push", "pull"}},
			by: map[string]string{"pull": "push", "push": "", "other": ""},
		},
		"to Push, and the agent starts again": {
			reason: "nothing is new", turns: []turn{{"push", "pull"}, {"push", "pull"}}, by: map[string]string{"pull": "push", "push": ""},
		},
		"to Push and back": {
			reason: "the first agent's works are its own again", turns: []turn{{"push", "pull"}, {"pull", "push"}},
			by: map[string]string{"pull": "", "push": "pull"},
		},
		"to Push, back, and to Push": {
			reason: "the latest counts", turns: []turn{{"push", "pull"}, {"pull", "push"}, {"push", "pull"}},
			by: map[string]string{"pull": "push", "push": ""},
		},
		"to Push and to a new Klusterlet": {
			reason: "what nobody had taken over yet is the last one's", turns: []turn{{"push", "pull"}, {"new", "push"}},
			by: map[string]string{"pull": "new", "push": "new", "new": ""},
		},
		"to Push and to a new Klusterlet, whose agent knows the first one": {
			reason: "the one in between is not forgotten", turns: []turn{{"push", "pull"}, {"new", "pull"}},
			by: map[string]string{"pull": "new", "push": "new", "new": ""},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mark := NewMark("hash", "cluster")
			for _, turn := range c.turns {
				RecordTakeover(mark, turn.agent, turn.predecessor)
				if RecordTakeover(mark, turn.agent, turn.predecessor) {
					t.Errorf("what %s says once more is news", turn.agent)
				}
			}
			for agent, want := range c.by {
				if got := SuccessorOf([]workv1.AppliedManifestWork{{}, *mark}, agent); got != want {
					t.Errorf("%s: %q takes over from %s, want %q", c.reason, got, agent, want)
				}
			}
		})
	}
}

func TestARecordIsNoMark(t *testing.T) {
	record := NewMark("hash", "cluster")
	RecordTakeover(record, "push", "pull")
	record.Spec.ManifestWorkName = "w"
	if IsMark(record) || SuccessorOf([]workv1.AppliedManifestWork{*record}, "pull") != "" {
		t.Error("a record of a work that is called like a mark counts as one")
	}
	if NewMark("hash", "a").Name == NewMark("hash", "b").Name || NewMark("hash", "a").Name == NewMark("other", "a").Name {
		t.Error("two clusters have one mark")
	}
}
