// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package served finds out which kinds an API server serves, with one look for all who
// ask.
//
// Tenants name kinds, and may name ever so many that nobody serves.
package served

import (
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
)

// MaxAge is how old an answer may be. It is so short that whoever names a kind after
// its definition rarely notices, and so long that nobody keeps the API server busy by
// naming kinds.
const MaxAge = 250 * time.Millisecond

// KindCache tells which kinds an API server serves. However many are asked about, the
// server is asked once in MaxAge at most, and not at all while nobody asks. It is safe
// for concurrent use.
type KindCache struct {
	discovery discovery.ServerResourcesInterface
	clock     clock.PassiveClock

	mu     sync.Mutex // held while the server is asked, so that one asks for all
	asked  time.Time
	latest servedAnswer
}

// servedAnswer is what the server said last.
type servedAnswer struct {
	// kinds are those of each version of each group.
	kinds map[string]map[string]sets.Set[string]
	// failed are the versions that nobody can tell about now, with the reasons.
	failed map[schema.GroupVersion]error
	// err is why nobody can tell about any.
	err error
}

// NewKindCache returns the KindCache of the API server of a client of discovery, which must not
// have a cache of its own.
func NewKindCache(of discovery.ServerResourcesInterface, clk clock.PassiveClock) *KindCache {
	return &KindCache{discovery: of, clock: clk}
}

// ServesKind reports whether the server serves a kind, spelled like this, in any version.
func (k *KindCache) ServesKind(kind schema.GroupKind) (bool, error) {
	now := k.currentAnswer()
	if now.err != nil {
		return false, now.err
	}
	for _, kinds := range now.kinds[kind.Group] {
		if kinds.Has(kind.Kind) {
			return true, nil
		}
	}
	for version, err := range now.failed {
		if version.Group == kind.Group {
			return false, err
		}
	}
	return false, nil
}

// ServesVersion reports whether the server serves a kind, spelled like this, in its version.
func (k *KindCache) ServesVersion(kind schema.GroupVersionKind) (bool, error) {
	now := k.currentAnswer()
	if now.err != nil {
		return false, now.err
	}
	if now.kinds[kind.Group][kind.Version].Has(kind.Kind) {
		return true, nil
	}
	return false, now.failed[kind.GroupVersion()]
}

// currentAnswer returns an answer that is not too old.
func (k *KindCache) currentAnswer() servedAnswer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked.IsZero() || k.clock.Since(k.asked) >= MaxAge {
		k.latest = discoverKinds(k.discovery)
		k.asked = k.clock.Now() // after the answer, which may take long
	}
	return k.latest
}

func discoverKinds(of discovery.ServerResourcesInterface) servedAnswer {
	groups, lists, err := of.ServerGroupsAndResources()
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if groups == nil || err != nil && !partly {
		return servedAnswer{err: fmt.Errorf("asking the API server what it serves: %w", err)}
	}
	now := servedAnswer{kinds: map[string]map[string]sets.Set[string]{}, failed: map[schema.GroupVersion]error{}}
	for version, err := range failed {
		now.failed[version] = fmt.Errorf("asking the API server what it serves as %s: %w", version, err)
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no kind can be of it
		}
		if now.kinds[version.Group] == nil {
			now.kinds[version.Group] = map[string]sets.Set[string]{}
		}
		now.kinds[version.Group][version.Version] = kindsOf(list)
	}
	return now
}

// kindsOf are the kinds of a version that have objects.
func kindsOf(list *metav1.APIResourceList) sets.Set[string] {
	kinds := sets.New[string]()
	for i := range list.APIResources {
		if r := &list.APIResources[i]; !strings.Contains(r.Name, "/") { // a subresource
			kinds.Insert(r.Kind)
		}
	}
	return kinds
}
