// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/turns"
)

// fill has the revisions of other objects take all room of the namespace but so many
// bytes.
func (h *hub) fill(but int) {
	h.stages.shelf.addStored("others", storedRevision{"shop", "others", namespaceBytesMax - overheadBytes - but})
}

// TestRevisionsOfANamespaceAreBounded has an object change while there is no room for
// its revisions, as its owner's others take it: the change goes on, and only undoing
// it does not.
func TestRevisionsOfANamespaceAreBounded(t *testing.T) {
	h := newHub(t)
	h.sent("at first", h.look(), "a 1 x2, b 1 x2")
	used := h.stages.shelf.sum["shop"]
	h.fill(0)
	h.image = "2"
	h.sent("without room", h.look("a"), "a 2 x2, b 1 x2")
	if names, p := h.revisions(), h.progress(); len(names) != 1 || p.Unstored != 1 || p.Revision != 2 {
		t.Errorf("stored are %v, and it says %+v", names, p)
	}
	h.change(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Undo = new(int64(2)) })
	h.sent("what was stored comes back", h.look(), "a 1 x2, b 1 x2")
	h.change(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Undo = nil })
	h.sent("all have it", h.look(), "a 2 x2, b 2 x2")
	h.image = "3"
	h.look("a")
	h.change(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Undo = new(h.progress().Revision) })
	h.sent("what was not stored does not", h.look("a"), "a 3 x2, b 2 x2")
	if names, p := h.revisions(), h.progress(); len(names) > 0 || p.Unstored != 1 || p.Held != 1 || p.Revision != 3 {
		t.Errorf("stored are %v, and it says %+v", names, p)
	}
	h.stages.shelf.removeStored("others")
	h.look("a")
	if names, p := h.revisions(), h.progress(); len(names) != 1 || p.Unstored != 1 {
		t.Errorf("with room, stored are %v, and it says %+v", names, p)
	}
	if left := h.stages.shelf.sum["shop"]; left > 2*used {
		t.Errorf("%d bytes count for one revision", left)
	}
}

// TestRevisionsBetweenOthersGoFirst has an object change three times, and no cluster
// become healthy, while the namespace has much.
func TestRevisionsBetweenOthersGoFirst(t *testing.T) {
	for room, want := range map[int]int{namespaceBytesMax: 4, plentyBytesMax / 2: 2} {
		h := newHub(t)
		h.look()
		h.fill(room)
		for _, h.image = range []string{"2", "3", "4"} {
			h.look("a")
		}
		if names := h.revisions(); len(names) != want {
			t.Errorf("with room for %d bytes, %d revisions are stored, want %d", room, len(names), want)
		}
		h.change(func(s *fleetv1alpha1.PropagationRolloutSpec) { s.Undo = new(h.progress().Revision) })
		h.sent("undone", h.look(), "a 1 x2, b 1 x2")
	}
}

// TestWhatIsStoredIsNotInMemory looks at what is remembered of a large object, before
// and after a restart.
func TestWhatIsStoredIsNotInMemory(t *testing.T) {
	h := newHub(t)
	noise := make([]byte, 100_000)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	h.image = hex.EncodeToString(noise)
	h.look()
	for range 2 {
		if text := fmt.Sprintf("%+v", h.stages.entries[client.ObjectKeyFromObject(h.rollout)].history); len(text) > 1000 {
			t.Errorf("%d bytes are remembered", len(text))
		}
		if got := h.stages.shelf.sum["shop"]; got < len(noise) {
			t.Errorf("the revision counts as %d bytes", got)
		}
		h.restart()
	}
}

// TestDocumentsOfBeforeTakeTheirTurn has an override policy that changes a document go,
// while a cluster waits that has what it made.
func TestDocumentsOfBeforeTakeTheirTurn(t *testing.T) {
	h := newHub(t)
	policy := policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{
		FieldPath: "/spec/image", JSON: []policyv1alpha1.JSONPatchOperation{{SubPath: "/a", Operator: policyv1alpha1.OverriderOpRemove}},
	}}}}}
	h.own, h.image = []policyv1alpha1.OverridePolicy{policy}, `{"a":1}`
	h.sent("with the policy", h.look(), "a {} x2, b {} x2")
	h.own, h.image = nil, "2"
	others := []types.NamespacedName{{Namespace: "one", Name: "web"}, {Namespace: "other", Name: "web"}}
	for _, other := range others {
		if err := h.turns.Take(other); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.pass("a"); !errors.Is(err, turns.ErrWait) {
		t.Errorf("while others have their turn it says %v", err)
	}
	h.turns.Done(others[0])
	h.sent("when it is its turn", h.look("a"), "a 2 x2, b {} x2")
}
