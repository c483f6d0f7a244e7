// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// recentBytesMax is how many bytes of objects are remembered.
const recentBytesMax = 2 << 20

// Recent remembers the objects that were read or written last, so that the
// controllers that look at a change one after the other read the object once. It is
// safe for concurrent use.
type Recent struct {
	mu      sync.Mutex
	objects map[Key]remembered
	order   []turn // which object was remembered when, the oldest first
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

type turn struct {
	key    Key
	number int
}

// NewRecent returns what remembers nothing yet.
func NewRecent() *Recent { return &Recent{objects: map[Key]remembered{}} }

// put remembers an object, but for who has written which field.
func (r *Recent) put(key Key, object *unstructured.Unstructured) {
	if object.GetResourceVersion() == "" {
		return
	}
	object.SetManagedFields(nil)
	text, err := object.MarshalJSON()
	if err != nil || len(text) > recentBytesMax/8 {
		return // it is read when it is needed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, is := r.objects[key]; is && known.uid == object.GetUID() && !sinceOrAt(object.GetResourceVersion(), known.version) {
		return // who was slower has an older one
	}
	r.forget(key)
	r.turns++
	r.objects[key] = remembered{uid: object.GetUID(), version: object.GetResourceVersion(), text: text, turn: r.turns}
	r.order = append(r.order, turn{key, r.turns})
	r.bytes += len(text)
	for r.bytes > recentBytesMax || len(r.order) > 2*len(r.objects)+1 {
		oldest := r.order[0]
		r.order = r.order[1:]
		if r.objects[oldest.key].turn == oldest.number {
			r.forget(oldest.key)
		}
	}
}

// forget forgets an object. The caller has the lock.
func (r *Recent) forget(key Key) {
	r.bytes -= len(r.objects[key].text)
	delete(r.objects, key)
}

// get returns an object as it was in a version or is since; nil if that is not
// remembered.
func (r *Recent) get(key Key, version metav1.Object) *unstructured.Unstructured {
	r.mu.Lock()
	known, is := r.objects[key]
	r.mu.Unlock()
	if !is || known.uid != version.GetUID() || !sinceOrAt(known.version, version.GetResourceVersion()) {
		return nil
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(known.text); err != nil {
		return nil
	}
	return object
}

// sinceOrAt tells whether a version is another one, or later.
func sinceOrAt(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order >= 0
}
