// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// UseTypes makes the resources the ones that the user uses: those that nobody
// watched yet are watched from now on, until ctx ends, and those that nobody
// uses any more are not. The ctx is that of the inventory, not of a call.
func (i *Inventory) UseTypes(ctx context.Context, user string, resources []schema.GroupVersionResource) {
	i.mu.Lock()
	defer i.mu.Unlock()
	wanted := make([]schema.GroupResource, 0, len(resources))
	versions := make(map[schema.GroupResource]schema.GroupVersionResource, len(resources))
	for _, resource := range resources {
		wanted = append(wanted, resource.GroupResource())
		if _, ok := versions[resource.GroupResource()]; !ok { // else it is the same in another version
			versions[resource.GroupResource()] = resource
		}
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
