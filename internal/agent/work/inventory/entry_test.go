// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/testing/longtext"
)

// TestWhatIsKeptOfAnObjectIsBounded has whoever may write an object of the member fill all of its metadata.
func TestWhatIsKeptOfAnObjectIsBounded(t *testing.T) {
	w := newDesk(t).watch
	var owners []string
	for n := range 1000 {
		owners = append(owners, fmt.Sprintf("work-%d", n))
	}
	whole := seen("10", owners...)
	whole.Generation = 3
	whole.Annotations = map[string]string{"text": strings.Repeat("x", 256<<10)}
	whole.OwnerReferences = append([]metav1.OwnerReference{{Kind: "Gadget", Name: "other", UID: "other"}}, whole.OwnerReferences...)
	for range 1000 {
		whole.Finalizers = append(whole.Finalizers, "example.com/"+strings.Repeat("f", 100))
	}
	kept := w.reduceObject(whole)
	if kept.mark != apply.FingerprintOf(apply.ObjectRef{}, whole) {
		t.Errorf("the mark is %+v, want %+v", kept.mark, apply.FingerprintOf(apply.ObjectRef{}, whole))
	}
	if len(kept.Annotations)+len(kept.Labels)+len(kept.ManagedFields)+len(kept.Finalizers) > 0 {
		t.Errorf("kept is %+v", kept.PartialObjectMetadata)
	}
	if len(kept.OwnerReferences) != len(owners) || kept.OwnerReferences[0].Name != owners[0] {
		t.Errorf("%d of %d owners are kept, where there is room", len(kept.OwnerReferences), len(owners))
	}
	whole.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if got := w.reduceObject(whole).Finalizers; len(got) < 2 || len(strings.Join(got, "")) > finalizersBytesMax+len("…") || got[len(got)-1] != "…" {
		t.Errorf("of the finalizers %d are kept: %.200q", len(got), got)
	}

	long := strings.Repeat("n", 1<<20)
	whole = seen(long, long)
	whole.Name, whole.Namespace, whole.UID, whole.OwnerReferences[0].UID = long, long, types.UID(long), types.UID(long)
	kept = w.reduceObject(whole)
	if sum := len(kept.Name) + len(kept.Namespace) + len(kept.UID) + len(kept.ResourceVersion) + len(kept.mark.UID) + len(kept.mark.ResourceVersion); sum > 1024 || len(kept.OwnerReferences) > 0 {
		t.Errorf("an object that no API server has takes %d bytes and %d owners", sum, len(kept.OwnerReferences))
	}
}

// TestOwnersOfAListAreBounded has all objects of a list have more owners than are kept of each.
func TestOwnersOfAListAreBounded(t *testing.T) {
	manyOwners := func(n int) *metav1.PartialObjectMetadata {
		var owners []string
		for m := range 20 {
			owners = append(owners, fmt.Sprintf("%0100d-%d", n, m))
		}
		return seen("10", owners...)
	}
	w := newDesk(t).watch
	bytes, last := 0, 0
	for n := range 20_000 { // in one list
		kept := w.reduceObject(manyOwners(n))
		if len(kept.OwnerReferences) < ownersFirst {
			t.Fatalf("an object has %d owners", len(kept.OwnerReferences))
		}
		last = len(kept.OwnerReferences)
		for _, owner := range kept.OwnerReferences[ownersFirst:] {
			bytes += len(owner.Name) + len(owner.UID)
		}
	}
	if bytes > ownersBytesMax {
		t.Errorf("further owners have %d bytes", bytes)
	}
	if last != ownersFirst {
		t.Errorf("%d owners are kept without room for them", last)
	}
	w.Replace(nil, "10")
	if len(w.reduceObject(manyOwners(0)).OwnerReferences) == ownersFirst {
		t.Error("a list that was taken in leaves no room for owners")
	}
}

// TestAnOwnerSaidTwiceIsOne has an API server say an owner of an object twice, and then that the object is gone.
func TestAnOwnerSaidTwiceIsOne(t *testing.T) {
	d := newDesk(t)
	d.add(t, seen("2", "a", "b", "a"))
	record, _ := d.Get(object)
	if got := record.OwnerUIDs(); !slices.Equal(got, []types.UID{"a", "b"}) {
		t.Errorf("the owners are %v", got)
	}
	d.watch.Delete(d.watch.reduceObject(seen("3", "a", "b", "a")))
	if record, known := d.Get(object); record != nil || d.CountOwned("a") != 0 || d.CountOwned("b") != 0 {
		t.Errorf("left are %v (known: %t), %d and %d", record, known, d.CountOwned("a"), d.CountOwned("b"))
	}
	twice := &Owner{UID: "c"}
	d.owners["c"] = &ownedObjects{owner: twice}
	d.dropOwners(object, []*Owner{twice, twice}, nil)
	if _, left := d.owners["c"]; left {
		t.Error("an owner of nothing is kept")
	}
}

// TestLongTextsOfAnObjectAreNotKept has an API server make each text of an object a megabyte.
func TestLongTextsOfAnObjectAreNotKept(t *testing.T) {
	whole := seen("10", "work")
	longtext.Fill(whole, 1<<20)
	whole.DeletionTimestamp = nil
	if bytes := longtext.Bytes(newDesk(t).watch.reduceObject(whole)); bytes > 2<<10 {
		t.Errorf("%d bytes are kept", bytes)
	}
}
