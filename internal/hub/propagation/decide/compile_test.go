// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/stakes"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// TestPlacementsOfATenantDoNotFillTheMemory has fewer placements than are remembered of
// usual ones, each of 200 KB.
func TestPlacementsOfATenantDoNotFillTheMemory(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	d := NewDecider(DeciderOptions{Fleet: fleet.NewFleet(clk), Clock: clk})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	sent := 0
	const placements = 100
	for i := range placements {
		names := make([]string, 8_000)
		for k := range names {
			names[k] = fmt.Sprintf("member-of-the-fleet-%d-%d", i, k)
		}
		text, err := json.Marshal(policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names}})
		if err != nil {
			t.Fatal(err)
		}
		sent += len(text)
		if _, problems := d.compile(nil, string(text)); len(problems) > 0 {
			t.Fatal(problems.ToAggregate())
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(d)
	kept := int(after.HeapAlloc) - int(before.HeapAlloc)
	t.Logf("of %d bytes of placements, %d are kept", sent, kept)
	if kept > sent {
		t.Errorf("%d placements of %d bytes together take %d bytes for good", placements, sent, kept)
	}
}

// TestPlacementsAreCompiledOnce counts what a placement takes that is known.
func TestPlacementsAreCompiledOnce(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	d := NewDecider(DeciderOptions{Fleet: fleet.NewFleet(clk), Clock: clk})
	names := make([]string, 1000)
	for k := range names {
		names[k] = fmt.Sprint("member", k)
	}
	placement := &policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names}}
	if _, problems := d.compile(placement, "text"); len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	if n := testing.AllocsPerRun(10, func() { d.compile(placement, "text") }); n > 3 {
		t.Errorf("a placement that is known takes %.0f allocations", n)
	}
}

// TestMistakesAreFoundOnce counts what a placement takes that is known to be wrong.
func TestMistakesAreFoundOnce(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	d := NewDecider(DeciderOptions{Fleet: fleet.NewFleet(clk), Clock: clk})
	for _, text := range []string{
		`{"clusterAffinity":{"clusterNames":[` + strings.Repeat(`"a",`, 60_000) + `1]}}`,
		`{"spreadConstraints":[` + strings.Repeat(`{"minGroups":-1},`, 1000) + `{}]}`,
	} {
		_, problems := d.compile(nil, text)
		if len(problems) == 0 || len(problems) > problemsMax {
			t.Errorf("there are %d mistakes", len(problems))
		}
		if n := testing.AllocsPerRun(10, func() { d.compile(nil, text) }); n > 3 {
			t.Errorf("a placement that is known to be wrong takes %.0f allocations", n)
		}
	}
}

// TestFewPlacementsAreReadForAChange has many bindings say that long placements were applied to
// them, each another one, and one binding of somebody else.
func TestFewPlacementsAreReadForAChange(t *testing.T) {
	const many, size = 200, 240 << 10
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	d := NewDecider(DeciderOptions{Fleet: fleet.NewFleet(clk), Clock: clk})
	var groups []*stakes.Group
	for i := range many {
		groups = append(groups, &stakes.Group{Placement: fmt.Sprintf(`{"n":%d}%s`, i, strings.Repeat(" ", size))})
	}
	usual := &stakes.Group{Placement: `{"clusterAffinity":{"labelSelector":{"matchLabels":{"env":"production"}}}}`}
	twin := &stakes.Group{Placement: usual.Placement, Stake: binding.ChangeSensitivity{Affinity: "twin"}}
	applied := d.ReadApplied(slices.Concat(groups, []*stakes.Group{usual, twin}))
	read := 0
	for group := range applied.read {
		read += len(group.Placement)
	}
	if read > readBytesMax+2*len(usual.Placement) {
		t.Errorf("%d bytes of placements are read for a change", read)
	}
	before, after := &view.Cluster{Name: "member1"}, &view.Cluster{Name: "member1", Labels: map[string]string{"env": "test"}}
	for _, group := range []*stakes.Group{usual, twin} {
		if applied.Affected(group, before, after, false) || applied.Reconfirms(group, before, after) {
			t.Error("a label that somebody else's placement does not ask for affects it")
		}
	}
	unread := 0
	for _, group := range groups {
		if _, is := applied.read[group]; is {
			continue
		}
		if unread++; !applied.Affected(group, before, after, false) || !applied.Reconfirms(group, before, after) {
			t.Error("what is not read is not affected")
		}
	}
	if unread == 0 {
		t.Error("all are read")
	}
}
