// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Use makes the resources the ones that the user uses: those that nobody
// watched yet are watched from now on, until ctx ends, and those that nobody
// uses any more are not. The ctx is that of the inventory, not of a call.
func (i *Inventory) Use(ctx context.Context, user string, resources []schema.GroupVersionResource) {
	i.mu.Lock()
	defer i.mu.Unlock()
	wanted := make([]schema.GroupResource, 0, len(resources))
	for _, resource := range resources {
		if slices.Contains(wanted, resource.GroupResource()) {
			continue // in another version
		}
		wanted = append(wanted, resource.GroupResource())
		if _, ok := i.types[resource.GroupResource()]; !ok {
			i.types[resource.GroupResource()] = i.start(ctx, resource)
		}
		if !slices.Contains(i.uses[user], resource.GroupResource()) {
			i.types[resource.GroupResource()].users++
		}
	}
	for _, used := range i.uses[user] {
		if !slices.Contains(wanted, used) {
			i.drop(used)
		}
	}
	if len(wanted) == 0 {
		delete(i.uses, user)
		return
	}
	if !slices.Equal(wanted, i.recent) {
		i.recent = wanted
	}
	i.uses[user] = i.recent
}

// usersOf returns who uses a type, sorted.
func (i *Inventory) usersOf(w *typeWatch) []string {
	var users []string
	for user, used := range i.uses {
		if slices.Contains(used, w.resource.GroupResource()) {
			users = append(users, user)
		}
	}
	slices.Sort(users)
	return users
}

// drop ends a use, and the watch with the last one.
func (i *Inventory) drop(resource schema.GroupResource) {
	w, ok := i.types[resource]
	if !ok {
		return
	}
	w.users--
	if w.users > 0 {
		return
	}
	w.cancel()
	w.stopped = true
	delete(i.types, resource)
	for key := range w.records {
		i.remove(w, objectOf(w.resource, key))
	}
}
