// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/kube/written"
)

var name = types.NamespacedName{Namespace: "default", Name: "web-deployment"}

func of(uid types.UID, version string, generation int64) *workv1alpha2.ResourceBinding {
	return &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: name.Namespace, Name: name.Name, UID: uid, ResourceVersion: version, Generation: generation,
	}}
}

func TestWhatWasWrittenIsReadUntilACacheShowsIt(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	deleting := of("u", "12", 1)
	deleting.DeletionTimestamp = &metav1.Time{Time: clk.Now()}
	for reason, test := range map[string]struct {
		do    func(*WrittenBindings)
		shown client.Object
		want  string // "" for that of the cache
	}{
		"the cache shows none":            {func(l *WrittenBindings) { l.RecordWrite(of("u", "10", 1)) }, nil, "10"},
		"the cache shows an older one":    {func(l *WrittenBindings) { l.RecordWrite(of("u", "10", 1)) }, of("u", "9", 1), "10"},
		"the cache shows the same":        {func(l *WrittenBindings) { l.RecordWrite(of("u", "10", 1)) }, of("u", "10", 1), ""},
		"the cache shows a later one":     {func(l *WrittenBindings) { l.RecordWrite(of("u", "10", 1)) }, of("u", "11", 1), ""},
		"the cache shows an earlier name": {func(l *WrittenBindings) { l.RecordWrite(of("u", "10", 1)) }, of("before", "9", 1), "10"},
		"two answers cross": {func(l *WrittenBindings) {
			l.RecordWrite(of("u", "11", 1))
			l.RecordWrite(of("u", "10", 1))
		}, nil, "11"},
		"the cache has shown it, and it is gone": {func(l *WrittenBindings) {
			l.RecordWrite(of("u", "10", 1))
			l.ObserveCached(of("u", "10", 1))
		}, nil, ""},
		"the answer comes after the deletion was seen": {func(l *WrittenBindings) {
			l.ObserveGone(of("u", "12", 1))
			l.RecordWrite(of("u", "10", 1))
		}, nil, ""},
		"it is gone before the cache has shown it": {func(l *WrittenBindings) {
			l.RecordWrite(of("u", "10", 1))
			l.ObserveGone(of("u", "12", 1))
		}, nil, ""},
		"it is being deleted": {func(l *WrittenBindings) {
			l.RecordWrite(of("u", "10", 1))
			l.RecordWrite(deleting)
		}, nil, ""},
		"it was deleted by us": {func(l *WrittenBindings) {
			l.RecordWrite(of("u", "10", 1))
			l.RecordDeletion(name)
		}, nil, ""},
		"another of the name is gone": {func(l *WrittenBindings) {
			l.RecordWrite(of("u", "10", 1))
			l.ObserveGone(of("before", "9", 1))
		}, nil, "10"},
		"the cache is behind for too long": {func(l *WrittenBindings) {
			l.RecordWrite(of("u", "10", 1))
			clk.SetTime(clk.Now().Add(written.BehindMax + time.Second))
		}, nil, ""},
	} {
		t.Run(reason, func(t *testing.T) {
			l := NewWrittenBindings(clk)
			test.do(l)
			got := ""
			if b := l.Since(name, test.shown); b != nil {
				got = b.GetResourceVersion()
			}
			if got != test.want {
				t.Errorf("version %q is read, want %q", got, test.want)
			}
		})
	}
}

func TestAnAnswerIsCurrentForAMoment(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	l := NewWrittenBindings(clk)
	l.RecordWrite(of("u", "10", 2))
	l.ObserveCached(of("u", "10", 2))
	for reason, test := range map[string]struct {
		binding client.Object
		want    bool
	}{
		"as it was written":     {of("u", "10", 2), true},
		"with another status":   {of("u", "11", 2), true},
		"of another spec":       {of("u", "9", 1), false},
		"another of the name":   {of("v", "12", 2), false},
		"nobody has written it": {&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other", UID: "u", Generation: 2}}, false},
	} {
		if got := l.Current(test.binding); got != test.want {
			t.Errorf("%s: %t", reason, got)
		}
	}
	clk.SetTime(clk.Now().Add(currentMax + time.Millisecond))
	if l.Current(of("u", "10", 2)) {
		t.Error("an answer from long ago counts")
	}
	l.RecordStatusWrite(of("u", "12", 2))
	if l.Current(of("u", "12", 2)) {
		t.Error("the answer to a write of the status counts for the spec, which was delivered long ago")
	}
	l.RecordWrite(of("u", "13", 3))
	l.RecordStatusWrite(of("u", "14", 3))
	if !l.Current(of("u", "14", 3)) {
		t.Error("the answer to a write of the spec counts no longer after one of the status")
	}
	l.EndCurrent(of("u", "14", 3))
	if l.Current(of("u", "14", 3)) {
		t.Error("an answer counts although works were delivered by it")
	}
	l.RecordWrite(of("u", "15", 2))
	l.ObserveGone(of("u", "16", 2))
	if l.Current(of("u", "15", 2)) {
		t.Error("an answer about what is gone counts")
	}
}

func TestAClientReadsWhatItHasWritten(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	ctx, hub := t.Context(), fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&workv1alpha2.ResourceBinding{}).Build()
	cache := fake.NewClientBuilder().WithScheme(scheme).Build() // which shows nothing yet
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	c := ReadOwnWritesClient{Client: behind{Client: hub, cache: cache}, Written: NewWrittenBindings(clk), Meter: store.NewWriteMeter(clk)}
	b := of("u", "", 1)
	if err := c.Create(ctx, b); err != nil {
		t.Fatal(err)
	}
	read := &workv1alpha2.ResourceBinding{}
	if err := c.Get(ctx, name, read); err != nil || read.UID != "u" {
		t.Fatalf("what was created is not read: %v", err)
	}
	read.Status.SchedulerObservedGeneration = 7
	if err := c.Status().Patch(ctx, read, client.MergeFrom(b)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, name, b); err != nil || b.Status.SchedulerObservedGeneration != 7 {
		t.Errorf("the status that was written is not read: %v", err)
	}
	if err := c.Delete(ctx, b); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, name, b); !apierrors.IsNotFound(err) {
		t.Errorf("what was deleted is read: %v", err)
	}
}

// TestEachWriteOfABindingIsCounted writes a large binding in each way, as often as its namespace may at once that has
// written 60 MiB already.
func TestEachWriteOfABindingIsCounted(t *testing.T) {
	const bytes = 1 << 20
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for way, write := range map[string]func(c client.Client, b *workv1alpha2.ResourceBinding, n int) error{
		"creating it": func(c client.Client, b *workv1alpha2.ResourceBinding, n int) error {
			another := b.DeepCopy()
			another.ResourceVersion = ""
			another.Name = fmt.Sprint(n)
			return c.Create(t.Context(), another)
		},
		"changing it": func(c client.Client, b *workv1alpha2.ResourceBinding, n int) error {
			before := b.DeepCopy()
			b.Labels = map[string]string{"n": fmt.Sprint(n)}
			return c.Patch(t.Context(), b, client.MergeFrom(before))
		},
		"its status": func(c client.Client, b *workv1alpha2.ResourceBinding, n int) error {
			before := b.DeepCopy()
			b.Status.SchedulerObservedGeneration = int64(n)
			return c.Status().Patch(t.Context(), b, client.MergeFrom(before))
		},
	} {
		b := of("u", "", 1)
		b.Spec.SchedulerName = strings.Repeat("x", bytes)
		hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).WithStatusSubresource(b).Build()
		clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
		c := ReadOwnWritesClient{Client: hub, Written: NewWrittenBindings(clk), Meter: store.NewWriteMeter(clk)}
		if err := hub.Get(t.Context(), name, b); err != nil {
			t.Fatal(err)
		}
		large := of("u", "", 1)
		large.Spec.SchedulerName = strings.Repeat("x", 60*bytes)
		c.Meter.CountWrite(t.Context(), large)
		written := 0
		for c.Meter.WaitBeforeChange(t.Context(), name.Namespace) == 0 && written < 20 {
			written++
			if err := write(c, b, written); err != nil {
				t.Fatal(err)
			}
		}
		if written < 3 || written > 6 {
			t.Errorf("%s: %d MiB are written at once, want about four", way, written)
		}
	}
}

// behind reads from another cluster than it writes to.
type behind struct {
	client.Client

	cache client.Client
}

// Get implements client.Reader.
func (b behind) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return b.cache.Get(ctx, key, object, options...)
}
