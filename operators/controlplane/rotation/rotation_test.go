// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func start() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

func state(name, token string, stage fleetv1alpha1.RotationStage, message ...string) State {
	return State{Name: name, Token: token, Stage: stage, Since: metav1.NewTime(start()), Message: strings.Join(message, "")}
}

func TestDecide(t *testing.T) {
	spec := fleetv1alpha1.ControlPlaneRotation{
		EtcdAuthority: "e1", ClientAuthority: "c1", ClientAuthorityGrace: &metav1.Duration{Duration: time.Hour},
	}
	const until = "the old one is trusted until 2026-01-01T01:00:00Z, for clients that have not renewed what it signed; " +
		"spec.rotation.clientAuthorityGrace sets how long"
	etcdDone, clientDone := state(EtcdAuthority, "e1", Complete), state(ClientAuthority, "c1", Complete)
	for name, c := range map[string]struct {
		at     time.Duration
		states []State
		facts  StageFacts
		want   []State
	}{
		"nothing was rotated yet, so the first begins": {
			want: []State{state(EtcdAuthority, "e1", Trust)},
		},
		"one at a time": {
			states: []State{state(EtcdAuthority, "e1", Trust)}, facts: StageFacts{Left: "pod a"},
			want: []State{state(EtcdAuthority, "e1", Trust, "pod a")},
		},
		"everybody trusts": {
			states: []State{state(EtcdAuthority, "e1", Trust, "pod a")},
			want:   []State{state(EtcdAuthority, "e1", Sign)},
		},
		"everything is signed, and nobody is to be waited for": {
			states: []State{state(EtcdAuthority, "e1", Sign)},
			want:   []State{state(EtcdAuthority, "e1", Drop)},
		},
		"everybody has forgotten": {
			states: []State{state(EtcdAuthority, "e1", Drop)},
			want:   []State{etcdDone},
		},
		"then the next one": {
			states: []State{etcdDone},
			want:   []State{state(ClientAuthority, "c1", Trust), etcdDone},
		},
		"another token does not disturb the rotation that is under way": {
			states: []State{state(EtcdAuthority, "e0", Sign)}, facts: StageFacts{Left: "pod a"},
			want: []State{state(EtcdAuthority, "e0", Sign, "pod a")},
		},
		"what was made is lost, so it begins anew": {
			states: []State{state(EtcdAuthority, "e1", Sign)}, facts: StageFacts{Lost: true},
			want: []State{state(EtcdAuthority, "e1", Trust)},
		},
		"clients have time": {
			states: []State{state(ClientAuthority, "c1", Sign), etcdDone},
			want:   []State{state(ClientAuthority, "c1", Wait, until), etcdDone},
		},
		"which is not over yet": {
			at: time.Hour - time.Second, states: []State{state(ClientAuthority, "c1", Wait), etcdDone},
			want: []State{state(ClientAuthority, "c1", Wait, until), etcdDone},
		},
		"another token waits for that": {
			states: []State{state(ClientAuthority, "c0", Wait, until), etcdDone},
			want:   []State{state(ClientAuthority, "c0", Wait, until), etcdDone},
		},
		"but another rotation does not": {
			states: []State{state(ClientAuthority, "c1", Wait, until), state(EtcdAuthority, "e0", Complete)},
			want:   []State{state(ClientAuthority, "c1", Wait, until), state(EtcdAuthority, "e1", Trust)},
		},
		"nor does it make one begin beside another": {
			at: 2 * time.Hour, states: []State{state(ClientAuthority, "c1", Wait, until), state(EtcdAuthority, "e1", Trust)}, facts: StageFacts{Left: "pod a"},
			want: []State{state(ClientAuthority, "c1", Wait, until), state(EtcdAuthority, "e1", Trust, "pod a")},
		},
		"programs on the host have time to read that of the server": {
			at: ServingSettle - time.Second, states: []State{clientDone, etcdDone, state(ServingAuthority, "s1", Trust)},
			want: []State{clientDone, etcdDone, state(ServingAuthority, "s1", Trust,
				"waiting until 2026-01-01T00:05:00Z for the hub's programs on the host to restart with the new one")},
		},
		"and then it signs": {
			at: ServingSettle, states: []State{clientDone, etcdDone, state(ServingAuthority, "s1", Trust)},
			want: []State{clientDone, etcdDone, state(ServingAuthority, "s1", Sign)},
		},
		"all is done": {
			states: []State{clientDone, etcdDone},
			want:   []State{clientDone, etcdDone},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := start().Add(c.at)
			got := AdvanceRotations(now, Subjects(spec), c.states, c.facts)
			for n := range got {
				got[n].Since = metav1.NewTime(start())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAgentsOfMembersAreFollowed(t *testing.T) {
	all := []Follower{{"c3", nil}, {"c1", []string{"old", "new"}}, {"c2", []string{"old"}}}
	var many []Follower
	for n := range 12 {
		many = append(many, Follower{Name: string(rune('a' + n))})
	}
	for name, c := range map[string]struct {
		followers []Follower
		without   []string
		want      string
	}{
		"there are none":             {},
		"all trust it":               {followers: all[1:2]},
		"some do not, or say not so": {followers: all, want: "waiting for the agents of 2 clusters to trust the new one: c2, c3; they follow"},
		"one is not waited for":      {followers: all, without: []string{"c3", "c9"}, want: "of 1 cluster to trust the new one: c2;"},
		"none is waited for":         {followers: all, without: []string{"*"}},
		"many":                       {followers: many, want: "of 12 clusters to trust the new one: a, b, c, d, e, f, g, h, i, j and 2 more;"},
	} {
		t.Run(name, func(t *testing.T) {
			got := FollowerTrustFacts(c.followers, []string{"new", "old"}, c.without)
			if !strings.Contains(got.Left, c.want) || (got.Left == "") != (c.want == "") || got.Others != (c.want != "") || got.Lost {
				t.Errorf("%+v, want %q in it", got, c.want)
			}
		})
	}
}

func TestAGraceThatIsOverEndsTheWait(t *testing.T) {
	subjects := Subjects(fleetv1alpha1.ControlPlaneRotation{ClientAuthority: "c1", ServiceAccountKeys: "s1"})
	client, keys := state(ClientAuthority, "c1", Wait), state(ServiceAccountKeys, "s1", Wait)
	due := NextWaitEndTime(subjects, []State{client, keys})
	if want := start().Add(8 * 24 * time.Hour); !due.Equal(want) {
		t.Errorf("without serviceAccountKeysGrace, its wait ends at %s, want %s", due, want)
	}
	if got := FindRotation(AdvanceRotations(due, subjects, []State{client, keys}, StageFacts{}), ServiceAccountKeys); got.Stage != Drop || !got.Since.Time.Equal(due) {
		t.Errorf("then it is in stage %s since %s", got.Stage, got.Since)
	}
	due = NextWaitEndTime(subjects, []State{client})
	if want := start().Add(366 * 24 * time.Hour); !due.Equal(want) {
		t.Errorf("without clientAuthorityGrace, its wait ends at %s, want %s", due, want)
	}
	if got := FindRotation(AdvanceRotations(due, subjects, []State{client}, StageFacts{}), ClientAuthority); got.Stage != Drop {
		t.Errorf("then it is in stage %s", got.Stage)
	}
	if due := NextWaitEndTime(subjects, []State{state(ClientAuthority, "c1", Complete)}); !due.IsZero() {
		t.Errorf("one that is complete is due at %s", due)
	}
}

func TestANewControlPlaneRotatesNothing(t *testing.T) {
	subjects := Subjects(fleetv1alpha1.ControlPlaneRotation{EtcdAuthority: "e1", FrontProxyAuthority: "f1"})
	states := InitialRotations(start(), subjects, nil)
	want := []State{state(EtcdAuthority, "e1", Complete), state(FrontProxyAuthority, "f1", Complete)}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(want, AdvanceRotations(start(), subjects, states, StageFacts{})); diff != "" {
		t.Errorf("and afterwards: -want +got:\n%s", diff)
	}
}
