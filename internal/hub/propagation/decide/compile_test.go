// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
)

// TestPlacementsOfATenantDoNotFillTheMemory has fewer placements than are remembered of
// usual ones, each of 200 KB.
func TestPlacementsOfATenantDoNotFillTheMemory(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	d := New(Options{Fleet: fleet.New(clk), Clock: clk})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	sent := 0
	const placements = 100
	for i := range placements {
		names := make([]string, 20_000)
		for k := range names {
			names[k] = fmt.Sprintf("m%d-%d", i, k)
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
	d := New(Options{Fleet: fleet.New(clk), Clock: clk})
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
