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
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/kube/written"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

const (
	// contentBytesMax is how many bytes of objects are remembered.
	contentBytesMax = 2 << 20
	// contentAgeMax is for how long they are, and contentSweep how often it is looked which
	// are to be forgotten.
	contentAgeMax = 20 * time.Second
	contentSweep  = 5 * time.Second
)

// ContentCache remembers the objects that were read or written last, so that the
// controllers that look at a change one after the other read the object once. Unlike
// package ownwrites it may forget any of them at any time, as it is bounded by bytes: who
// asks reads the object then. It is safe for concurrent use.
type ContentCache struct {
	clock   clock.Clock
	mu      sync.Mutex
	objects map[Key]content
	order   []contentEntry // which object was remembered when, the oldest first
	turns   int
	bytes   int
}

// content is an object, as JSON.
type content struct {
	uid     types.UID
	version string
	text    []byte
	turn    int
}

type contentEntry struct {
	key    Key
	number int
	at     time.Time
}

// NewContentCache returns what remembers nothing yet.
func NewContentCache(clk clock.Clock) *ContentCache {
	return &ContentCache{clock: clk, objects: map[Key]content{}}
}

// Start forgets what nobody will ask for any more, until ctx ends. It is a Runnable
// of a manager.
func (r *ContentCache) Start(ctx context.Context) error {
	for backoff.SleepContext(ctx, r.clock, contentSweep) {
		r.sweepExpired()
	}
	return nil
}

func (r *ContentCache) sweepExpired() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.order) > 0 && r.clock.Since(r.order[0].at) > contentAgeMax {
		r.dropOldest()
	}
	if len(r.objects) == 0 {
		r.objects = map[Key]content{}
		r.order = nil // which do not get smaller
	}
}

// dropOldest forgets what was remembered first, if it was not since. The caller has the
// lock.
func (r *ContentCache) dropOldest() {
	oldest := r.order[0]
	r.order = r.order[1:]
	if r.objects[oldest.key].turn == oldest.number {
		r.forgetObject(oldest.key)
	}
}

// putObject remembers an object, but for who has written which field, unless that decides what
// of it is sent.
func (r *ContentCache) putObject(key Key, object *unstructured.Unstructured) {
	if object.GetResourceVersion() == "" {
		return
	}
	if !native.NeedsManagedFields(key.Kind.GroupKind()) {
		object.SetManagedFields(nil)
	}
	text, err := object.MarshalJSON()
	if err != nil || len(text) > contentBytesMax/8 {
		return // it is read when it is needed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, is := r.objects[key]; is && known.uid == object.GetUID() && !written.IsSince(object.GetResourceVersion(), known.version) {
		return // who was slower has an older one
	}
	r.forgetObject(key)
	r.turns++
	text = bytes.Clone(text) // the encoder's has room for more
	r.objects[key] = content{uid: object.GetUID(), version: object.GetResourceVersion(), text: text, turn: r.turns}
	r.order = append(r.order, contentEntry{key, r.turns, r.clock.Now()})
	r.bytes += len(text)
	for r.bytes > contentBytesMax || len(r.order) > 2*len(r.objects)+1 {
		r.dropOldest()
	}
}

// forgetObject forgets an object. The caller has the lock.
func (r *ContentCache) forgetObject(key Key) {
	r.bytes -= len(r.objects[key].text)
	delete(r.objects, key)
}

// getSince returns an object as it was in a version or is since; nil if that is not
// remembered.
func (r *ContentCache) getSince(ctx context.Context, key Key, version metav1.Object) *unstructured.Unstructured {
	r.mu.Lock()
	known, is := r.objects[key]
	r.mu.Unlock()
	if !is || known.uid != version.GetUID() || !written.IsSince(known.version, version.GetResourceVersion()) {
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
