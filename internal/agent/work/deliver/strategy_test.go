// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

func TestDecide(t *testing.T) {
	hash, other := apply.HashManifest([]byte("1")), apply.HashManifest([]byte("2"))
	mark := apply.Fingerprint{UID: "u", Generation: 1}
	past := apply.LastWrite{Hash: hash, Mark: mark}
	live := apply.LiveState{Known: true, Exists: true, Owned: true, Mark: mark}
	changed := live
	changed.Mark.Generation = 2
	going := live
	going.Deleting = true
	disowned := live
	disowned.Owned = false
	cases := map[string]struct {
		reason   string
		strategy plan.Strategy
		past     apply.LastWrite
		live     apply.LiveState
		want     deliveryAction
	}{
		"never written":                       {live: apply.LiveState{Known: true}, want: actionBring},
		"never written, and nobody knows":     {want: actionBring},
		"as it was":                           {past: past, live: live, want: actionSkip},
		"another manifest":                    {past: apply.LastWrite{Hash: other, Mark: mark}, live: live, want: actionBring},
		"someone changed it":                  {past: past, live: changed, want: actionBring},
		"someone took the owner away":         {past: past, live: disowned, want: actionBring},
		"someone deleted it":                  {past: past, live: apply.LiveState{Known: true}, want: actionBring},
		"someone deletes it":                  {reason: "writing to what goes is lost", past: past, live: going, want: actionWait},
		"nobody watches":                      {past: past, live: apply.LiveState{}, want: actionSkip},
		"after a restart":                     {live: live, want: actionBring},
		"create only, absent":                 {strategy: plan.StrategyCreateOnly, live: apply.LiveState{Known: true}, want: actionBring},
		"create only, ours, another manifest": {strategy: plan.StrategyCreateOnly, past: apply.LastWrite{Hash: other, Mark: mark}, live: changed, want: actionSkip},
		"create only, theirs":                 {strategy: plan.StrategyCreateOnly, live: disowned, want: actionBring},
		"create only, nobody watches":         {strategy: plan.StrategyCreateOnly, past: past, want: actionSkip},
		"server-side apply, changed":          {strategy: plan.StrategyServerSideApply, past: past, live: changed, want: actionBring},
		"read only":                           {strategy: plan.StrategyReadOnly, past: past, live: going, want: actionBring},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strategyOf(&plan.DesiredObject{Strategy: tc.strategy}).decideAction(hash, tc.past, tc.live); got != tc.want {
				t.Errorf("decided: got %d, want %d. %s", got, tc.want, tc.reason)
			}
		})
	}
}

func BenchmarkDecideAndMark(b *testing.B) {
	object := &metav1.ObjectMeta{
		UID: "0d8f7c9e-4b1a-4a52-9b8a-0c7a9a1f5d11", Generation: 3, Labels: map[string]string{"app": "web", "work": "true"},
		OwnerReferences: []metav1.OwnerReference{{UID: "b3f2c1d0-4b1a-4a52-9b8a-0c7a9a1f5d11"}},
	}
	past := apply.LastWrite{Hash: apply.HashManifest(nil), Mark: apply.FingerprintOf(apply.ObjectRef{Group: "apps", Resource: "deployments"}, object)}
	b.ReportAllocs()
	for b.Loop() {
		live := apply.LiveState{Known: true, Exists: true, Owned: true, Mark: apply.FingerprintOf(apply.ObjectRef{Group: "apps", Resource: "deployments"}, object)}
		if strategyOf(&plan.DesiredObject{}).decideAction(past.Hash, past, live) != actionSkip {
			b.Fatal("not skipped")
		}
	}
}
