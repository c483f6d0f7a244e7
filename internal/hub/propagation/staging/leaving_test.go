// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRolloutsThatGoHaveTheirShare has a thousand rollouts of the same deleted at once, in the order in which they take over its objects
// from each other.
func TestRolloutsThatGoHaveTheirShare(t *testing.T) {
	const rivals = 1000
	h := newHub(t)
	h.look()
	left := []RolloutKey{client.ObjectKeyFromObject(h.rollout)}
	for n := range rivals {
		rival := h.rollout.DeepCopy()
		rival.Name, rival.UID = fmt.Sprintf("web-%04d", n), types.UID(fmt.Sprint(n))
		if err := h.stages.SetRollout(t.Context(), rival); err != nil {
			t.Fatal(err)
		}
		left = append(left, client.ObjectKeyFromObject(rival))
	}
	h.slowDown()
	told, changed := h.touched, 0
	h.stages.Changed = func(RolloutKey) { changed++ }
	for looks := 0; len(left) > 0; looks++ {
		if looks > 10 {
			t.Fatalf("%d of the rollouts are still known, such as %s", len(left), left[0])
		}
		left = slices.DeleteFunc(left, func(key RolloutKey) bool { return h.stages.RemoveRollout(key) == 0 })
		h.clock.SetTime(h.clock.Now().Add(decidingShare * time.Second))
	}
	if moves := h.touched - told; moves > 2 {
		t.Errorf("the object is left to another %d times", moves)
	}
	if changed > 2*rivals {
		t.Errorf("rollouts are told %d times that something is different", changed)
	}
	if len(h.stages.targets)+len(h.stages.entries)+len(h.stages.governed) > 0 {
		t.Errorf("%d targets, %d rollouts and %d bindings are remembered", len(h.stages.targets), len(h.stages.entries), len(h.stages.governed))
	}
}

// TestAnEarlierRolloutKeepsItsObjectsForAWhile has a rollout deleted and created again while its namespace rests.
func TestAnEarlierRolloutKeepsItsObjectsForAWhile(t *testing.T) {
	h := newHub(t)
	h.look()
	key := client.ObjectKeyFromObject(h.rollout)
	earlier := h.stages.entries[key]
	h.stages.rests.beginRest(key.Namespace, time.Second, h.clock.Now())
	h.rollout.UID = "again"
	later := h.stages.PlaceRollout(h.rollout)
	if later <= 0 || h.stages.entries[key] != earlier {
		t.Errorf("it takes its place at once, and may be taken in after %s", later)
	}
	h.clock.SetTime(h.clock.Now().Add(later))
	if later := h.stages.PlaceRollout(h.rollout); later != 0 || h.stages.entries[key].uid != h.rollout.UID {
		t.Errorf("after its time it has to wait for %s, and %q is in its place", later, h.stages.entries[key].uid)
	}
}
