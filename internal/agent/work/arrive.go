// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// arrivalWatcher makes works come again when definitions and namespaces come or go
// that they wait for. It watches these only as long as a work waits. Where the
// agent may not watch them, works come again by their retries.
type arrivalWatcher struct {
	ctx    context.Context // the connection's
	client metadata.Interface
	run    func(func())
	again  func(work string)

	mu      sync.Mutex
	waiting map[string]unmetNeeds // by work
	arrived map[string]struct{}   // works for which something came since they waited last
	uses    watch.UseCounter[schema.GroupVersionResource]
	cancel  map[schema.GroupVersionResource]context.CancelFunc
}

// unmetNeeds is what a work waits for: groups of definitions, and names of namespaces.
type unmetNeeds struct {
	groups, namespaces map[string]struct{}
}

func newArrivalWatcher(ctx context.Context, client metadata.Interface, run func(func()), again func(work string)) *arrivalWatcher {
	return &arrivalWatcher{
		ctx: ctx, client: client, run: run, again: again,
		waiting: map[string]unmetNeeds{}, arrived: map[string]struct{}{}, cancel: map[schema.GroupVersionResource]context.CancelFunc{},
	}
}

// setUnmetNeeds notes what a work waits for now, which may be nothing. It reports whether
// something came since it was called last: a definition is served a moment
// after the last event about it, so that is a time to look often.
func (a *arrivalWatcher) setUnmetNeeds(work string, what unmetNeeds) (arrived bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, arrived = a.arrived[work]
	delete(a.arrived, work)
	delete(a.waiting, work)
	if len(what.groups) > 0 || len(what.namespaces) > 0 {
		a.waiting[work] = what
	}
	var kinds []schema.GroupVersionResource
	if len(what.groups) > 0 {
		kinds = append(kinds, definitionResource())
	}
	if len(what.namespaces) > 0 {
		kinds = append(kinds, namespaceResource())
	}
	first, last := a.uses.SetUses(work, kinds...)
	for _, kind := range first {
		a.watchKind(kind)
	}
	for _, kind := range last {
		a.cancel[kind]()
		delete(a.cancel, kind)
	}
	return arrived
}

func definitionResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

func namespaceResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

// watchKind begins to watch a kind, until it is canceled.
func (a *arrivalWatcher) watchKind(kind schema.GroupVersionResource) {
	ctx, cancel := context.WithCancel(a.ctx)
	a.cancel[kind] = cancel
	run := watch.Watch[*metav1.PartialObjectMetadata]{
		Source:  watch.IdentitySource(a.client, kind, watch.ObjectSelector{}),
		Handler: &kindArrivals{arrivals: a, resource: kind.Resource},
	}
	a.run(func() { run.RunReflector(dial.ReducedContext(ctx)) })
}

// kindArrivals tells of what comes and goes of one kind.
type kindArrivals struct {
	arrivals *arrivalWatcher
	resource string
}

// Replace tells of all that there is.
func (a *kindArrivals) Replace(found []*metav1.PartialObjectMetadata, _ string) {
	for _, object := range found {
		a.Update(object)
	}
}

// Update tells of what came or changed.
func (a *kindArrivals) Update(object *metav1.PartialObjectMetadata) {
	a.arrivals.notifyArrival(a.resource, object.Name)
}

// Delete tells of what is gone: a namespace that was on its way out may be made anew.
func (a *kindArrivals) Delete(object *metav1.PartialObjectMetadata) { a.Update(object) }

// Bookmark tells nothing.
func (a *kindArrivals) Bookmark(string) {}

// Failed tells nothing: works come again by their retries.
func (a *kindArrivals) Failed(error) {}

// notifyArrival makes the works come again that wait for a definition or a namespace.
func (a *arrivalWatcher) notifyArrival(resource, name string) {
	_, group, _ := strings.Cut(name, ".")
	a.mu.Lock()
	defer a.mu.Unlock()
	for work, what := range a.waiting {
		wanted := false
		switch resource {
		case "customresourcedefinitions":
			_, wanted = what.groups[group]
		case "namespaces":
			_, wanted = what.namespaces[name]
		}
		if wanted {
			a.arrived[work] = struct{}{}
			a.again(work)
		}
	}
}
