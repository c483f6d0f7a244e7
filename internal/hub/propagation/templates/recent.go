// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"bytes"
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

const (
	// recentBytesMax is how many bytes of objects are remembered.
	recentBytesMax = 2 << 20
	// recentMax is for how long they are, and recentSweep how often it is looked which
	// are to be forgotten.
	recentMax   = 20 * time.Second
	recentSweep = 5 * time.Second
)

// RecentObjects remembers the objects that were read or written last, so that the
// controllers that look at a change one after the other read the object once. It is
// safe for concurrent use.
type RecentObjects struct {
	clock   clock.Clock
	mu      sync.Mutex
	objects map[Key]remembered
	order   []recentEntry // which object was remembered when, the oldest first
	turns   int
	bytes   int
}

// remembered is an object, as JSON.
type remembered struct {
	uid     types.UID
	version string
	text    []byte
	turn    int
}

type recentEntry struct {
	key    Key
	number int
	at     time.Time
}

// NewRecentObjects returns what remembers nothing yet.
func NewRecentObjects(clk clock.Clock) *RecentObjects {
	return &RecentObjects{clock: clk, objects: map[Key]remembered{}}
}

// Start forgets what nobody will ask for any more, until ctx ends. It is a Runnable
// of a manager.
func (r *RecentObjects) Start(ctx context.Context) error {
	for backoff.SleepContext(ctx, r.clock, recentSweep) {
		r.sweepExpired()
	}
	return nil
}

func (r *RecentObjects) sweepExpired() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.order) > 0 && r.clock.Since(r.order[0].at) > recentMax {
		r.dropOldest()
	}
	if len(r.objects) == 0 {
		r.objects = map[Key]remembered{}
		r.order = nil // which do not get smaller
	}
}

// dropOldest forgets what was remembered first, if it was not since. The caller has the
// lock.
func (r *RecentObjects) dropOldest() {
	oldest := r.order[0]
	r.order = r.order[1:]
	if r.objects[oldest.key].turn == oldest.number {
		r.forgetObject(oldest.key)
	}
}

// putObject remembers an object, but for who has written which field, unless that decides what
// of it is sent.
func (r *RecentObjects) putObject(key Key, object *unstructured.Unstructured) {
	if object.GetResourceVersion() == "" {
		return
	}
	if !native.NeedsManagedFields(key.Kind.GroupKind()) {
		object.SetManagedFields(nil)
	}
	text, err := object.MarshalJSON()
	if err != nil || len(text) > recentBytesMax/8 {
		return // it is read when it is needed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, is := r.objects[key]; is && known.uid == object.GetUID() && !sinceOrAt(object.GetResourceVersion(), known.version) {
		return // who was slower has an older one
	}
	r.forgetObject(key)
	r.turns++
	text = bytes.Clone(text) // the encoder's has room for more
	r.objects[key] = remembered{uid: object.GetUID(), version: object.GetResourceVersion(), text: text, turn: r.turns}
	r.order = append(r.order, recentEntry{key, r.turns, r.clock.Now()})
	r.bytes += len(text)
	for r.bytes > recentBytesMax || len(r.order) > 2*len(r.objects)+1 {
		r.dropOldest()
	}
}

// forgetObject forgets an object. The caller has the lock.
func (r *RecentObjects) forgetObject(key Key) {
	r.bytes -= len(r.objects[key].text)
	delete(r.objects, key)
}

// getSince returns an object as it was in a version or is since; nil if that is not
// remembered.
func (r *RecentObjects) getSince(ctx context.Context, key Key, version metav1.Object) *unstructured.Unstructured {
	r.mu.Lock()
	known, is := r.objects[key]
	r.mu.Unlock()
	if !is || known.uid != version.GetUID() || !sinceOrAt(known.version, version.GetResourceVersion()) {
		return nil
	}
	if decoding.TakeMemory(ctx, decoding.DecodedBytes(known.text)) != nil {
		return nil
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(known.text); err != nil {
		return nil
	}
	return object
}

// sinceOrAt reports whether a version is another one, or later.
func sinceOrAt(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order >= 0
}
