// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"cmp"
	"context"
	"slices"

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

// ChangeQueue take in what a watch tells of objects, and work out aside what a controller is to
// look at for it: the watch tells everybody's changes one after the other, and keeps all
// that wait. Here namespaces have their turns, and equal parts of the time: a tenant whose
// changes take long has fewer turns than others, who wait for one of its changes at most.
type ChangeQueue[K comparable] struct {
	pendingWork[*Change]

	follow func(context.Context, Queue[K], Change)
	// latest are the last of those that wait of each object.
	latest map[types.NamespacedName]*Change
}

// NewChangeQueue returns changes of which follow adds to the queue what is to be looked at.
func NewChangeQueue[K comparable](follow func(context.Context, Queue[K], Change)) *ChangeQueue[K] {
	return &ChangeQueue[K]{pendingWork: newPendingWork[*Change](), follow: follow, latest: map[types.NamespacedName]*Change{}}
}

// AddChange takes in a change. It returns at once.
func (c *ChangeQueue[K]) AddChange(before, after client.Object) {
	object := client.ObjectKeyFromObject(cmp.Or(after, before))
	change := &Change{Before: before, After: after, name: object}
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.latest[object]; last != nil && len(c.waiting[object.Namespace]) >= apartMax {
		if last.After != nil && len(last.Between) < betweenMax {
			last.Between = append(last.Between, last.After)
		}
		last.After = after
		return
	}
	c.putWaiting(object.Namespace, change)
	c.latest[object] = change
}

// NoteAgain has an object followed once more that has not changed itself. If a change of it waits, that is
// enough: what was read here may be older than what the watch tells of it.
func (c *ChangeQueue[K]) NoteAgain(object client.Object) {
	change := &Change{After: object, name: client.ObjectKeyFromObject(object)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest[change.name] == nil {
		c.putWaiting(change.name.Namespace, change)
		c.latest[change.name] = change
	}
}

// ForwardChanges has the queue of a controller filled, as long as it runs.
func (c *ChangeQueue[K]) ForwardChanges(ctx context.Context, q Queue[K]) error {
	c.followNews(ctx, func() bool { return c.FollowNext(ctx, q) })
	return nil
}

// FollowNext follows the change whose turn it is. It is false if there is none. It is called by one
// goroutine at a time.
func (c *ChangeQueue[K]) FollowNext(ctx context.Context, q Queue[K]) bool {
	next := c.takeNextChange()
	if next == nil {
		return false
	}
	begun := c.now()
	c.follow(ctx, q, *next)
	c.endTurn(next.name.Namespace, begun)
	return true
}

// takeNextChange takes out the oldest change of the namespace whose turn it is.
func (c *ChangeQueue[K]) takeNextChange() *Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, is := c.takeNext()
	if is && c.latest[next.name] == next {
		delete(c.latest, next.name)
	}
	return next
}
