// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

	for _, n := range []int{0, 1, 100_000} {
		whole.Finalizers = make([]string, n, 100_000)
		if got := w.reduceObject(whole).Finalizers; len(got) != min(n, finalizersMax+1) || cap(got) > 2*finalizersMax {
			t.Errorf("of %d empty finalizers %d are kept, with room for %d", n, len(got), cap(got))
		}
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
	const objects = 7000
	manyOwners := func(n int) *metav1.PartialObjectMetadata {
		var owners []string
		for m := range 20 {
			owners = append(owners, fmt.Sprintf("%0100d-%d", n, m))
		}
		return seen("10", owners...)
	}
	d := newDesk(t)
	w := d.watch
	bytes, last := 0, 0
	for n := range objects { // in one list
		kept := w.reduceObject(manyOwners(n))
		if len(kept.OwnerReferences) < ownersFirst {
			t.Fatalf("an object has %d owners", len(kept.OwnerReferences))
		}
		last = len(kept.OwnerReferences)
		for _, owner := range kept.OwnerReferences[ownersFirst:] {
			bytes += len(owner.Name) + len(owner.UID) + int(unsafe.Sizeof(owner))
		}
	}
	if bytes > ownersBytesMax {
		t.Errorf("further owners have %d bytes", bytes)
	}
	if last != ownersFirst {
		t.Errorf("%d owners are kept without room for them", last)
	}
	other := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	d.UseTypes(t.Context(), "other", []schema.GroupVersionResource{other})
	if len(d.Inventory.types[other.GroupResource()].reduceObject(manyOwners(0)).OwnerReferences) > ownersFirst {
		t.Error("the list of each type has as much room for owners")
	}
	for name, ends := range map[string]func(){
		"was taken in": func() { w.Replace(nil, "10") },
		"failed":       func() { w.Failed(errors.New("the cluster does not respond")) },
	} {
		for n := range objects {
			w.reduceObject(manyOwners(n))
		}
		ends()
		if len(w.reduceObject(manyOwners(0)).OwnerReferences) == ownersFirst {
			t.Errorf("a list that %s leaves no room for owners", name)
		}
	}
	w.further.closeRoom() // as a watch does that ends while it lists
	w.reduceObject(manyOwners(0))
	if taken := d.furtherOwners.Load(); taken != 0 {
		t.Errorf("owners of a watch that has ended take up %d bytes", taken)
	}
}

// TestOwnersOfEventsAreBounded has events tell of objects with as many owners as there are bytes for.
func TestOwnersOfEventsAreBounded(t *testing.T) {
	const objects = pairsMax/ownersOfObject + 50
	d := newDesk(t)
	d.options.Changed = func(ObjectChange) {}
	var names []string
	for m := range 100_000 {
		names = append(names, fmt.Sprintf("work-%d", m))
	}
	event := func(n int, whole *metav1.PartialObjectMetadata) {
		whole.Name = fmt.Sprintf("object-%d", n)
		d.add(t, whole)
	}
	held := func() (pairs int) {
		for _, owner := range d.owners {
			pairs += owner.objects.size()
		}
		return pairs
	}
	event(0, seen("1", names[:50_000]...))
	event(0, seen("2", names[50_000:]...))
	if got := held(); got != ownersOfObject || got != d.pairs || len(d.owners) != got {
		t.Errorf("an object has %d owners of %d, and %d count", got, len(d.owners), d.pairs)
	}
	full := seen("3", names[:ownersOfObject]...)
	for n := range objects {
		event(n, full)
	}
	if got := held(); got > pairsMax+objects*ownersFirst || got < pairsMax || got != d.pairs {
		t.Errorf("there are %d pairs of an object and an owner, and %d count", got, d.pairs)
	}
	d.watch.Replace(nil, "4")
	if len(d.owners) != 0 || d.pairs != 0 {
		t.Errorf("%d owners and %d pairs are left of no object", len(d.owners), d.pairs)
	}
}

func TestOwnersWithoutOthers(t *testing.T) {
	owners := func(uids string) (all []*Owner) {
		for _, uid := range uids {
			all = append(all, &Owner{UID: types.UID(uid)})
		}
		return all
	}
	for _, c := range [][3]string{{"abc", "", "abc"}, {"", "abc", ""}, {"abc", "abc", ""}, {"abd", "bc", "ad"}, {"bc", "abd", "c"}, {"ce", "abdf", "ce"}} {
		got := ""
		for _, owner := range ownersWithout(owners(c[0]), owners(c[1])) {
			got += string(owner.UID)
		}
		if got != c[2] {
			t.Errorf("%q without %q is %q, want %q", c[0], c[1], got, c[2])
		}
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
