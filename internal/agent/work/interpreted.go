// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/interpreters"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// interpreted are the works of a cluster that bindings made: what users of the hub say
// of kinds is for them. They come again when something else is said of theirs.
type interpreted struct {
	ctx        context.Context // the connection's
	connection *fleet.Connection
	hub        *interpreters.Hub
	again      func(work string)

	mu      sync.Mutex
	uses    watch.Uses[schema.GroupVersionKind]
	waiting map[string]struct{} // until it is known what users say
}

// join makes a cluster ask the users of its hub. It has to leave.
func (i *interpreted) join(ctx context.Context, hubs *interpreters.Hubs, c *fleet.Connection, again func(work string)) {
	i.ctx = ctx
	i.connection = c
	i.again = again
	i.waiting = map[string]struct{}{}
	i.hub = hubs.Join(c, i.changed)
}

func (i *interpreted) leave() { i.hub.Leave(i.connection) }

// need notes that there is a work which the users of the hub may have customized.
func (i *interpreted) need(work *workv1.ManifestWork) {
	if plan.OfBinding(work) {
		i.hub.Need(i.ctx, i.connection)
	}
}

// ready tells whether it is known what users say of what is in a work. Otherwise the
// work comes again when it is.
func (i *interpreted) ready(work *workv1.ManifestWork) bool {
	if !plan.OfBinding(work) || i.hub.Known() {
		return true
	}
	i.need(work)
	i.mu.Lock()
	i.waiting[work.Name] = struct{}{}
	i.mu.Unlock()
	return i.hub.Known() // it may be since; then the work comes once more than needed
}

// use notes the kinds that a work has, which may be none.
func (i *interpreted) use(work string, kinds []schema.GroupVersionKind) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.uses.Use(work, kinds...)
	if len(kinds) == 0 {
		delete(i.waiting, work)
	}
}

// changed makes the works come again that have one of the kinds, or, if there are
// none, those that wait.
func (i *interpreted) changed(kinds []schema.GroupVersionKind) {
	i.mu.Lock()
	var works []string
	if kinds == nil {
		works = slices.Collect(maps.Keys(i.waiting))
		clear(i.waiting)
	}
	for _, kind := range kinds {
		works = append(works, i.uses.Users(kind)...)
	}
	i.mu.Unlock()
	for _, work := range works {
		i.again(work)
	}
}
