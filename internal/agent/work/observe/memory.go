// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"sync/atomic"
	"time"

	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// ObservationMemory is what is remembered from pass to pass of a work whose objects are
// observed. The zero value is that of a work that asks nothing. Only the pass
// that is under way uses it, but for ChangeDelay.
type ObservationMemory struct {
	observed atomic.Pointer[observedObjects]
}

// observedObjects is not there unless the work asks something.
type observedObjects struct {
	pace evaluationThrottle
	// due is when the objects may be read next, in nanoseconds since 1970.
	due atomic.Int64
	// objects are those that are observed. The map does not change.
	objects atomic.Pointer[map[apply.ObjectRef]struct{}]
}

// ChangeDelay returns how long a change of the object may wait. It is false if the
// work does not observe the object. It is safe for concurrent use.
func (m *ObservationMemory) ChangeDelay(object apply.ObjectRef, now time.Time) (time.Duration, bool) {
	o := m.observed.Load()
	if o == nil {
		return 0, false
	}
	if objects := o.objects.Load(); objects == nil {
		return 0, false
	} else if _, ok := (*objects)[object]; !ok {
		return 0, false
	}
	return max(0, time.Unix(0, o.due.Load()).Sub(now)), true
}

// beginObserving returns the memory of a work that asks about the objects of the items.
func (m *ObservationMemory) beginObserving(items []*plan.ManifestItem) *observedObjects {
	memory := m.observed.Load()
	if memory == nil {
		memory = &observedObjects{}
		m.observed.Store(memory)
	}
	old := memory.objects.Load()
	same := old != nil && len(*old) == len(items)
	for i := 0; same && i < len(items); i++ {
		_, same = (*old)[items[i].Desired.Object]
	}
	if !same {
		objects := make(map[apply.ObjectRef]struct{}, len(items))
		for _, it := range items {
			objects[it.Desired.Object] = struct{}{}
		}
		memory.objects.Store(&objects)
	}
	return memory
}
