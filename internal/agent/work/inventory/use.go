// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// typesMax is how many types are watched: each takes a goroutine and a connection's
// stream, and records of a member, from which they are taken, may name any.
const typesMax = 1000

// errManyTypes says that a type is not watched since so many others are.
var errManyTypes = fmt.Errorf("the agent watches %d types of objects of the cluster, and no more", typesMax)

// UseTypes makes the resources the ones that the user uses: those that nobody
// watched yet are watched from now on, until ctx ends, and those that nobody
// uses any more are not. The ctx is that of the inventory, not of a call. Types for
// which there is no room count as not used.
func (i *Inventory) UseTypes(ctx context.Context, user string, resources []schema.GroupVersionResource) {
	i.mu.Lock()
	defer i.mu.Unlock()
	wanted := make([]schema.GroupResource, 0, len(resources))
	versions := make(map[schema.GroupResource]schema.GroupVersionResource, len(resources))
	room := typesMax - len(i.types)
	for _, resource := range resources {
		kind := resource.GroupResource()
		if _, ok := versions[kind]; ok { // it is the same in another version
			continue
		}
		if _, watched := i.types[kind]; !watched {
			if room == 0 {
				continue
			}
			room--
		}
		versions[kind] = resource
		wanted = append(wanted, kind)
	}
	first, last := i.uses.SetUses(user, wanted...)
	for _, resource := range first {
		i.types[resource] = i.startWatch(ctx, versions[resource])
	}
	for _, resource := range last {
		i.stopWatch(resource)
	}
}

// stopWatch ends the watch of a type that nobody uses any more.
func (i *Inventory) stopWatch(resource schema.GroupResource) {
	w := i.types[resource]
	w.cancel()
	w.stopped = true
	delete(i.types, resource)
	for key := range w.records {
		i.removeRecord(w, objectOf(w.resource, key))
	}
}
