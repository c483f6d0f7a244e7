// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

var (
	resource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	object   = apply.ObjectRef{Resource: "configmaps", Namespace: "n", Name: "a"}
)

// desk is an inventory that is fed by hand.
type desk struct {
	*Inventory
	watch   *typeWatch
	changed []string
	types   []string
}

func newDesk(t *testing.T) *desk {
	d := &desk{}
	d.Inventory = NewInventory(WatchOptions{
		Go: func(func()) {}, // nothing is watched for real
		Changed: func(c ObjectChange) {
			for _, owner := range c.Owners {
				text := fmt.Sprintf("%s %s gone=%t", owner.Name, c.Object.Name, c.Gone)
				if c.Minor {
					text += " minor"
				}
				d.changed = append(d.changed, text)
			}
		},
		TypeChanged: func(r schema.GroupResource, users []string) {
			d.types = append(d.types, fmt.Sprintf("%s %v", r, users))
		},
	})
	d.UseTypes(t.Context(), "user", []schema.GroupVersionResource{resource})
	d.watch = d.Inventory.types[resource.GroupResource()]
	return d
}

func seen(resourceVersion string, owners ...string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "a", UID: "u", ResourceVersion: resourceVersion, Labels: map[string]string{workv1.LabelManaged: "true"},
	}}
	for _, owner := range owners {
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{
			APIVersion: workv1.GroupVersion.String(), Kind: workv1.KindAppliedManifestWork, Name: owner, UID: types.UID(owner),
		})
	}
	return m
}

func (d *desk) add(t *testing.T, m *metav1.PartialObjectMetadata) {
	t.Helper()
	d.watch.Update(d.watch.reduceObject(m))
}

func (d *desk) remove(t *testing.T, m *metav1.PartialObjectMetadata) {
	t.Helper()
	d.watch.Delete(d.watch.reduceObject(m))
}

func (d *desk) expect(t *testing.T, changed ...string) {
	t.Helper()
	if diff := cmp.Diff(changed, d.changed); diff != "" {
		t.Errorf("changes, -want +got:\n%s", diff)
	}
	d.changed = nil
}

func TestOwnWritesAreNoChange(t *testing.T) {
	d := newDesk(t)
	d.watch.Replace(nil, "10")
	d.ObserveWrite(object, seen("11", "w"), "w")
	if record, known := d.Get(object); record == nil || !known {
		t.Fatal("what was written is not there before the watch says so")
	}
	d.add(t, seen("11", "w"))
	d.expect(t)
	d.add(t, seen("12", "w"))
	d.expect(t, "w a gone=false")
}

func TestTheOtherOwnersAreToldOfAWriteAtOnce(t *testing.T) {
	unlabelled := seen("13")
	unlabelled.Labels = nil
	for reason, test := range map[string]struct {
		then *metav1.PartialObjectMetadata
		want []string
	}{
		"a new value":          {seen("12", "v", "w"), []string{"v a gone=false"}},
		"w lets go":            {seen("12", "v"), []string{"v a gone=false"}},
		"nobody has it longer": {unlabelled, []string{"v a gone=true"}},
	} {
		t.Run(reason, func(t *testing.T) {
			d := newDesk(t)
			d.watch.Replace([]*watchedObject{d.watch.reduceObject(seen("10", "v", "w"))}, "10")
			d.changed = nil
			d.ObserveWrite(object, test.then, "w")
			d.expect(t, test.want...)
		})
	}
}

func TestChangesThatTheMarkDoesNotCoverAreMinor(t *testing.T) {
	withGeneration := func(resourceVersion string, generation int64, owners ...string) *metav1.PartialObjectMetadata {
		m := seen(resourceVersion, owners...)
		m.Generation = generation
		return m
	}
	for reason, test := range map[string]struct {
		first, then *metav1.PartialObjectMetadata
		saw         bool // the first is known from our own write, not from the watch
		want        []string
	}{
		"the status changed":          {first: withGeneration("11", 1, "w"), then: withGeneration("12", 1, "w"), want: []string{"w a gone=false minor"}},
		"the spec changed":            {first: withGeneration("11", 1, "w"), then: withGeneration("12", 2, "w"), want: []string{"w a gone=false"}},
		"the watch repeats our write": {first: withGeneration("11", 1, "w"), then: withGeneration("11", 1, "w"), saw: true},
		"the watch repeats our write, which the other owner does not know": {
			first: withGeneration("11", 1, "v", "w"), then: withGeneration("11", 1, "v", "w"), saw: true,
			want: []string{"v a gone=false minor", "w a gone=false minor"},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			d := newDesk(t)
			d.watch.Replace(nil, "10")
			if test.saw {
				d.ObserveWrite(object, test.first, "w")
			} else {
				d.add(t, test.first)
			}
			d.changed = nil
			d.add(t, test.then)
			d.expect(t, test.want...)
		})
	}
}

func TestAnswersOlderThanTheWatchAreIgnored(t *testing.T) {
	d := newDesk(t)
	d.watch.Replace(nil, "10")
	d.add(t, seen("11", "w"))
	d.remove(t, seen("12", "w"))
	d.ObserveWrite(object, seen("11", "w"), "w")
	if record, _ := d.Get(object); record != nil {
		t.Error("an object that was deleted came back")
	}
	d.expect(t, "w a gone=false", "w a gone=true")
}

func TestAWatchBehindOurWriteDoesNotUndoIt(t *testing.T) {
	d := newDesk(t)
	d.watch.Replace([]*watchedObject{d.watch.reduceObject(seen("10", "w"))}, "10")
	d.ObserveWrite(object, seen("13", "v", "w"), "w")
	d.changed = nil
	d.add(t, seen("12", "w"))
	if got := d.OwnedBy("v"); len(got) != 1 {
		t.Errorf("v owns %v", got)
	}
	d.expect(t)
}

func TestAListDropsWhatItDoesNotHave(t *testing.T) {
	d := newDesk(t)
	d.watch.Replace([]*watchedObject{d.watch.reduceObject(seen("10", "w"))}, "10")
	if diff := cmp.Diff([]string{"configmaps [user]"}, d.types); diff != "" {
		t.Errorf("types, -want +got:\n%s", diff)
	}
	d.changed = nil
	d.watch.Replace(nil, "20")
	d.expect(t, "w a gone=true")
	if d.CountOwned("w") != 0 {
		t.Error("w still owns something")
	}
	d.ObserveWrite(object, seen("30", "w"), "w")
	d.watch.Replace(nil, "25")
	if record, _ := d.Get(object); record == nil {
		t.Error("an older list dropped what was written after it")
	}
}

func TestOwnersBeforeAndAfterAreTold(t *testing.T) {
	d := newDesk(t)
	d.watch.Replace([]*watchedObject{d.watch.reduceObject(seen("10", "v", "w"))}, "10")
	d.changed = nil
	d.add(t, seen("11", "w", "x"))
	slices.Sort(d.changed)
	d.expect(t, "v a gone=false", "w a gone=false", "x a gone=false")
	if d.CountOwned("v") != 0 || d.CountOwned("x") != 1 {
		t.Errorf("v owns %d, x owns %d", d.CountOwned("v"), d.CountOwned("x"))
	}
}

func TestFinalizersOfWhatGoesAreKept(t *testing.T) {
	d := newDesk(t)
	d.watch.Replace([]*watchedObject{d.watch.reduceObject(seen("10", "w"))}, "10")
	d.changed = nil
	going := seen("11", "w")
	now := metav1.Now()
	going.DeletionTimestamp, going.Finalizers = &now, []string{"x"}
	d.add(t, going)
	d.expect(t, "w a gone=false")
	if record, _ := d.Get(object); record.Going == nil || len(record.Going.Finalizers) != 1 {
		t.Errorf("the record is %+v", record)
	}
}

// TestWhyATypeIsNotListedIsKeptOnce has many works ask why, while a server says much about that.
func TestWhyATypeIsNotListedIsKeptOnce(t *testing.T) {
	d := newDesk(t)
	internal := apierrors.NewInternalError(errors.New(strings.Repeat("x", 8<<10)))
	d.watch.Failed(internal)
	first := d.TypeState(resource.GroupResource())
	if !errors.Is(first, ErrPending) || !errors.Is(first, internal) {
		t.Errorf("State is %v", first)
	}
	allocated := testing.AllocsPerRun(100, func() {
		if err := d.TypeState(resource.GroupResource()); err != first { //nolint:errorlint // it has to be the same one
			t.Error("why the type is not listed is told anew each time")
		}
	})
	if allocated > 0 {
		t.Errorf("who asks allocates %v times", allocated)
	}
}

func TestATypeThatMayNotBeSeenIsNotKnown(t *testing.T) {
	d := newDesk(t)
	if err := d.TypeState(resource.GroupResource()); !errors.Is(err, ErrPending) {
		t.Errorf("State is %v, want ErrPending", err)
	}
	forbidden := apierrors.NewForbidden(resource.GroupResource(), "", nil)
	d.watch.Replace([]*watchedObject{d.watch.reduceObject(seen("10", "w"))}, "10")
	d.watch.Failed(forbidden)
	if err := d.TypeState(resource.GroupResource()); !errors.Is(err, forbidden) {
		t.Errorf("State is %v", err)
	}
	if record, known := d.Get(object); record != nil || known {
		t.Error("something is known")
	}
	d.ObserveWrite(object, seen("11", "w"), "w")
	if d.CountOwned("w") != 0 {
		t.Error("what cannot be followed is kept")
	}
	d.watch.Failed(errors.New("connection refused"))
	if err := d.TypeState(resource.GroupResource()); !errors.Is(err, forbidden) {
		t.Errorf("after an error that passes, State is %v", err)
	}
}

func TestATypeThatIsNotServedHasNoObjects(t *testing.T) {
	d := newDesk(t)
	d.watch.Replace([]*watchedObject{d.watch.reduceObject(seen("10", "w"))}, "10")
	d.changed = nil
	d.watch.Failed(apierrors.NewNotFound(schema.GroupResource{}, ""))
	d.expect(t, "w a gone=true")
	if _, known := d.Get(object); !known {
		t.Error("it is not known that there are none")
	}
}

func TestTheLastUserEndsAWatch(t *testing.T) {
	d := newDesk(t)
	d.UseTypes(t.Context(), "other", []schema.GroupVersionResource{resource})
	d.watch.Replace([]*watchedObject{d.watch.reduceObject(seen("10", "w"))}, "10")
	d.UseTypes(t.Context(), "user", nil)
	if _, known := d.Get(object); !known {
		t.Error("the watch ended with a user left")
	}
	d.UseTypes(t.Context(), "other", nil)
	if _, known := d.Get(object); known || d.CountOwned("w") != 0 {
		t.Error("the watch did not end")
	}
	d.changed = nil
	d.add(t, seen("12", "w")) // what is under way when it ends
	d.expect(t)
	if d.CountOwned("w") != 0 {
		t.Error("a stopped watch still fills the inventory")
	}
}

func TestATypeThatMayBeListedButNotWatchedIsAskedForRarely(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme)
	var requests atomic.Int32
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		requests.Add(1)
		return false, nil, nil
	})
	client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		requests.Add(1)
		return true, nil, apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	types := make(chan struct{}, 1000)
	i := NewInventory(WatchOptions{
		Client: client, Go: running.Go, Changed: func(ObjectChange) {},
		TypeChanged: func(schema.GroupResource, []string) { types <- struct{}{} },
	})
	i.UseTypes(ctx, "user", []schema.GroupVersionResource{resource})
	time.Sleep(time.Second)
	if got := requests.Load(); got > 20 {
		t.Errorf("%d requests in the first second, want a few", got)
	}
	for end := time.Now().Add(time.Minute); requests.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d requests, want that it is asked for again", requests.Load())
		}
	}
	if err := i.TypeState(resource.GroupResource()); !apierrors.IsForbidden(err) {
		t.Errorf("the state of the type is %v, want forbidden", err)
	}
	if len(types) > 2 {
		t.Errorf("the state of the type changed %d times, want once to known and back", len(types))
	}
}

// TestFewTypesAreWatched: records of a member may name types without number.
func TestFewTypesAreWatched(t *testing.T) {
	watches := 0
	i := NewInventory(WatchOptions{Go: func(func()) { watches++ }, Changed: func(ObjectChange) {}, TypeChanged: func(schema.GroupResource, []string) {}})
	var many []schema.GroupVersionResource
	for n := range 3 * typesMax {
		many = append(many, schema.GroupVersionResource{Version: "v1", Resource: fmt.Sprint(n)})
	}
	i.UseTypes(t.Context(), "member", many)
	if watches != typesMax {
		t.Errorf("%d types are watched, want %d", watches, typesMax)
	}
	if err := i.TypeState(many[0].GroupResource()); err != ErrPending { //nolint:errorlint // nothing else
		t.Errorf("a type that is watched: got %v, want %v", err, ErrPending)
	}
	if err := i.TypeState(many[typesMax].GroupResource()); err == nil || errors.Is(err, ErrPending) {
		t.Errorf("a type that is not watched: got %v, which says that it will be", err)
	}
	i.UseTypes(t.Context(), "work", []schema.GroupVersionResource{resource, many[0]})
	if watches != typesMax {
		t.Errorf("%d types are watched, want %d", watches, typesMax)
	}

	// What has no room is watched when there is some.
	i.UseTypes(t.Context(), "member", nil)
	i.UseTypes(t.Context(), "work", []schema.GroupVersionResource{resource, many[0]})
	if err := i.TypeState(resource.GroupResource()); watches != typesMax+1 || err != ErrPending { //nolint:errorlint // nothing else
		t.Errorf("%d watches were begun, want one more than %d; the type has the state %v", watches, typesMax, err)
	}
}

func BenchmarkEvent(b *testing.B) {
	i := NewInventory(WatchOptions{Go: func(func()) {}, Changed: func(ObjectChange) {}, TypeChanged: func(schema.GroupResource, []string) {}})
	i.UseTypes(b.Context(), "user", []schema.GroupVersionResource{resource})
	w := i.types[resource.GroupResource()]
	m := seen("11", "w")
	b.ReportAllocs()
	for b.Loop() {
		w.Update(w.reduceObject(m))
	}
}
