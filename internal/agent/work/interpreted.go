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

// interpretedWorks are the works of a cluster for which it counts what users of the hub say
// of kinds. They come again when something else is said of theirs.
type interpretedWorks struct {
	ctx        context.Context // the connection's
	connection *fleet.Connection
	hub        *interpreters.InterpreterHub
	again      func(work string)

	mu      sync.Mutex
	uses    watch.UseCounter[schema.GroupVersionKind]
	waiting map[string]struct{} // until it is known what users say
}

// joinHubs makes a cluster ask the users of its hub. It has to leave.
func (i *interpretedWorks) joinHubs(ctx context.Context, hubs *interpreters.HubRegistry, c *fleet.Connection, again func(work string)) {
	i.ctx = ctx
	i.connection = c
	i.again = again
	i.waiting = map[string]struct{}{}
	i.hub = hubs.JoinHub(c, i.kindsChanged)
}

func (i *interpretedWorks) leaveHub() { i.hub.LeaveHub(i.connection) }

// requireInterpreters notes that there is a work which the users of the hub may have customized.
func (i *interpretedWorks) requireInterpreters(work *workv1.ManifestWork) {
	if plan.IsInterpreted(work) {
		i.hub.StartReading(i.ctx, i.connection)
	}
}

// interpretersReady reports whether it is known what users say of what is in a work. Otherwise the
// work comes again when it is.
func (i *interpretedWorks) interpretersReady(work *workv1.ManifestWork) bool {
	if !plan.IsInterpreted(work) || i.hub.IsInterpretationKnown() {
		return true
	}
	i.requireInterpreters(work)
	i.mu.Lock()
	i.waiting[work.Name] = struct{}{}
	i.mu.Unlock()
	return i.hub.IsInterpretationKnown() // it may be since; then the work comes once more than needed
}

// useKinds notes the kinds that a work has, which may be none.
func (i *interpretedWorks) useKinds(work string, kinds []schema.GroupVersionKind) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.uses.SetUses(work, kinds...)
	if len(kinds) == 0 {
		delete(i.waiting, work)
	}
}

// kindsChanged makes the works come again that have one of the kinds, or, if there are
// none, those that wait.
func (i *interpretedWorks) kindsChanged(kinds []schema.GroupVersionKind) {
	i.mu.Lock()
	var works []string
	if kinds == nil {
		works = slices.Collect(maps.Keys(i.waiting))
		clear(i.waiting)
	}
	for _, kind := range kinds {
		works = append(works, i.uses.UsersOf(kind)...)
	}
	i.mu.Unlock()
	for _, work := range works {
		i.again(work)
	}
}
