// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// waitMax is how long a write waits at most.
const waitMax = 10 * time.Minute

// bindingOfBytes is a binding that takes about so many bytes.
func bindingOfBytes(namespace, name string, bytes int) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace = namespace
	b.Name = name
	b.Spec.SchedulerName = strings.Repeat("x", bytes)
	return b
}

// TestWritesOfBindingsAreSpacedByTheirBytes writes bindings as often as it may.
func TestWritesOfBindingsAreSpacedByTheirBytes(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	m := NewWriteMeter(clk)
	report := func(namespace, name string, bytes int) (written int) {
		for m.WaitBeforeReport(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}) == 0 && written < 10_000 {
			m.CountWrite(t.Context(), bindingOfBytes(namespace, name, bytes))
			written++
		}
		return written
	}
	if first := report("shop", "large", 1<<20); first < 4 || first > 5 {
		t.Errorf("a binding of a megabyte is reported %d times at once, want 4 or 5", first)
	}
	if wait := m.WaitBeforeReport(t.Context(), types.NamespacedName{Namespace: "shop", Name: "other"}); wait > 0 {
		t.Errorf("another one waits %v for it", wait)
	}
	clk.SetTime(clk.Now().Add(time.Minute))
	if next := report("shop", "large", 1<<20); next < 3 || next > 5 {
		t.Errorf("a minute later it is reported %d times, want 4", next)
	}
	if small := report("shop", "small", 2<<10); small < 1000 {
		t.Errorf("a small binding is reported %d times at once, want thousands", small)
	}
}

// TestChangesOfANamespaceWaitForItsBytes changes bindings of namespaces as often as it may.
func TestChangesOfANamespaceWaitForItsBytes(t *testing.T) {
	m := NewWriteMeter(clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	changed := 0
	for m.WaitBeforeChange(t.Context(), "greedy") == 0 && changed < 10_000 {
		m.CountWrite(t.Context(), bindingOfBytes("greedy", fmt.Sprint(changed), 128<<10))
		changed++
	}
	if changed < 500 || changed > 700 {
		t.Errorf("%d bindings of 128 KiB are changed at once, want about 600", changed)
	}
	if wait := m.WaitBeforeChange(t.Context(), "shop"); wait > 0 {
		t.Errorf("another namespace waits %v for it", wait)
	}
	if wait := m.WaitBeforeChange(WithClusterWide(t.Context(), true), "greedy"); wait > 0 {
		t.Errorf("what a ClusterPropagationPolicy sends of the namespace waits %v for its users", wait)
	}
	for range 200 {
		m.CountWrite(t.Context(), bindingOfBytes("greedy", "large", 4<<20))
	}
	if wait := m.WaitBeforeChange(t.Context(), "greedy"); wait != waitMax {
		t.Errorf("a namespace of which 800 MiB were written waits %v, want %v", wait, waitMax)
	}
	for i := range 10_000 {
		m.CountWrite(t.Context(), bindingOfBytes("many", fmt.Sprint(i), 4<<10))
	}
	if wait := m.WaitBeforeChange(t.Context(), "many"); wait > 0 {
		t.Errorf("a namespace with many bindings of an ordinary size waits %v", wait)
	}
}
