// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apartMax is how many changes of a namespace wait as they came. Beyond, those of an object
// become one: whoever changes an object again and again has the hub keep no more of it.
const apartMax = 8

// betweenMax is how many states of an object are kept between the first and the last one.
const betweenMax = 8

// Change is what became of an object.
type Change struct {
	Before, After client.Object // nil is none
	// Between are states that it had meanwhile, the oldest first: others may have seen
	// them, and have done something for them. Of an object that changes without end only
	// the first ones are kept.
	Between []client.Object

	name types.NamespacedName
}

// States returns all that the object is known to have been, the oldest first.
func (c Change) States() []client.Object {
	return slices.DeleteFunc(slices.Concat([]client.Object{c.Before}, c.Between, []client.Object{c.After}), func(o client.Object) bool { return o == nil })
}

// Changes take in what a watch tells of objects, and work out aside what a controller is to
// look at for it: the watch tells everybody's changes one after the other, and keeps all
// that wait. Here namespaces have their turns, and equal parts of the time: a tenant whose
// changes take long has fewer turns than others, who wait for one of its changes at most.
type Changes[K comparable] struct {
	follow func(context.Context, Queue[K], Change)
	now    func() time.Time

	mu sync.Mutex
	// waiting are the changes of a namespace, the oldest first, and turns the namespaces
	// that have some, but for the one whose turn it is.
	waiting map[string][]*Change
	turns   turns
	// latest are the last of those that wait of each object.
	latest map[types.NamespacedName]*Change
	news   chan struct{} // has an element if there may be some
}

// NewChanges returns changes of which follow adds to the queue what is to be looked at.
func NewChanges[K comparable](follow func(context.Context, Queue[K], Change)) *Changes[K] {
	return &Changes[K]{
		follow: follow, now: time.Now, waiting: map[string][]*Change{}, latest: map[types.NamespacedName]*Change{}, news: make(chan struct{}, 1),
	}
}

// Note takes in a change. It returns at once.
func (c *Changes[K]) Note(before, after client.Object) {
	object := client.ObjectKeyFromObject(cmp.Or(after, before))
	change := &Change{Before: before, After: after, name: object}
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.waiting[object.Namespace]
	if last := c.latest[object]; last != nil && len(waiting) >= apartMax {
		if last.After != nil && len(last.Between) < betweenMax {
			last.Between = append(last.Between, last.After)
		}
		last.After = after
		return
	}
	if len(waiting) == 0 {
		c.turns.come(object.Namespace)
	}
	c.waiting[object.Namespace] = append(waiting, change)
	c.latest[object] = change
	select {
	case c.news <- struct{}{}:
	default: // there are some already
	}
}

// Open has the queue of a controller filled, as long as it runs.
func (c *Changes[K]) Open(ctx context.Context, q Queue[K]) error {
	go func() {
		for ctx.Err() == nil {
			if c.Follow(ctx, q) {
				continue
			}
			select {
			case <-ctx.Done():
			case <-c.news:
			}
		}
	}()
	return nil
}

// Follow follows the change whose turn it is. It is false if there is none. It is called by one
// goroutine at a time.
func (c *Changes[K]) Follow(ctx context.Context, q Queue[K]) bool {
	next := c.next()
	if next == nil {
		return false
	}
	begun := c.now()
	c.follow(ctx, q, *next)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns.end(c.now().Sub(begun), len(c.waiting[next.name.Namespace]) > 0)
	return true
}

// next takes out the oldest change of the namespace whose turn it is.
func (c *Changes[K]) next() *Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	namespace, is := c.turns.begin()
	if !is {
		return nil
	}
	next := c.waiting[namespace][0]
	rest := c.waiting[namespace][1:]
	if c.latest[next.name] == next {
		delete(c.latest, next.name)
	}
	if c.waiting[namespace] = rest; len(rest) == 0 {
		delete(c.waiting, namespace)
	}
	return next
}
