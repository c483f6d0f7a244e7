// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestWhatIsLeftToTakeOver(t *testing.T) {
	const hub, other = "https://hub.example.com:6443", "https://other.example.com:6443"
	of := func(url, agent string) workv1.AppliedManifestWorkSpec {
		return workv1.AppliedManifestWorkSpec{HubHash: workv1.HubHash(url), AgentID: agent}
	}
	cases := map[string]struct {
		reason  string
		hubURL  string
		records []workv1.AppliedManifestWorkSpec
		want    Count
		says    string
	}{
		"nothing was delivered": {
			reason: "there is nothing to wait for", hubURL: hub,
			says: "0 of 0 AppliedManifestWorks are taken over",
		},
		"in the middle": {
			reason: "what the agent before has, and what has no agent, is still to be taken", hubURL: hub,
			records: []workv1.AppliedManifestWorkSpec{of(hub, "new"), of(hub, "old"), of(hub, "")},
			want:    Count{Taken: 1, Left: 2}, says: "1 of 3 AppliedManifestWorks are taken over",
		},
		"a member of two hubs": {
			reason: "what another hub delivered is not this agent's", hubURL: hub,
			records: []workv1.AppliedManifestWorkSpec{of(hub, "new"), of(other, "old")},
			want:    Count{Taken: 1, Foreign: 1}, says: "1 of 1 AppliedManifestWorks are taken over",
		},
		"an agent that did not write the URL": {
			reason: "records of another URL get no new agent, however long one waits", hubURL: "",
			records: []workv1.AppliedManifestWorkSpec{of("", "old"), of(hub, "old")},
			want:    Count{Foreign: 2}, says: "0 of 0 AppliedManifestWorks are taken over",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got Count
			for i := range c.records {
				Agent{ID: "new", HubURL: c.hubURL}.countRecord(&got, &c.records[i])
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if got.IsDone() != (c.want.Left == 0) || got.String() != c.says {
				t.Errorf("%s: done is %t, and it says %q", c.reason, got.IsDone(), got)
			}
		})
	}
}
