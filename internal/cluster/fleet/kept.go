// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// keptFor is how long KeptState has what is of a cluster that is not connected any more. What limits
// allow meanwhile is more than what they would allow at once if they began anew.
const keptFor = time.Hour

// KeptState has what a part must not forget of a cluster when one connection ends and another comes,
// such as what limits count: a member decides how often that happens. The zero value is ready for
// use; it is safe for concurrent use.
type KeptState[T any] struct {
	mu       sync.Mutex
	clusters map[ClusterName]*keptEntry[T]
}

// keptEntry is what there is of one cluster.
type keptEntry[T any] struct {
	value T
	// users is how many connections use it, and left when the last of them ended.
	users int
	left  time.Time
}

// StateOf returns what there is of a cluster, made anew if there is nothing. It is not forgotten before
// ctx, which is the life of the connection, ended.
func (k *KeptState[T]) StateOf(ctx context.Context, clk clock.PassiveClock, name ClusterName, anew func() T) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	for other, has := range k.clusters {
		if has.users == 0 && clk.Since(has.left) > keptFor {
			delete(k.clusters, other)
		}
	}
	found := k.clusters[name]
	if found == nil {
		if k.clusters == nil {
			k.clusters = map[ClusterName]*keptEntry[T]{}
		}
		found = &keptEntry[T]{value: anew()}
		k.clusters[name] = found
	}
	found.users++
	context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		found.users--
		found.left = clk.Now()
	})
	return found.value
}
