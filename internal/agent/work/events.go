// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/agent/work/runtime"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// run watches the works on the hub and their records on the member until ctx
// ends.
func (s *cluster) run(ctx context.Context) {
	watcher := runtime.Watcher{
		Connection: s.connection, Logger: s.options.Logger, Works: s.works.Cached, Records: s.ledger.Cached,
		Work: s.workChanged, Record: s.recordChanged, RecordsListed: func() { s.handover.Listed(); s.forgotten.Listed() },
	}
	s.connection.Go(func() { s.handover.Run(ctx, s.options.Logger) })
	watcher.Run(ctx)
}

// workChanged is called for each change of a work; before is nil for a new one.
func (s *cluster) workChanged(before, work *workv1.ManifestWork) {
	if work.Namespace != string(s.connection.Name) {
		return
	}
	if before == nil {
		s.forgotten.Changed()
		s.interpreted.need(work)
	}
	m := s.memory(s.request(work.Name))
	m.state.CompareAndSwap(uint32(stateNone), uint32(statePending))
	if suspended(work) {
		m.times.spec.end()
	} else if before == nil || before.Generation != work.Generation || suspended(before) {
		m.times.spec.begin(s.options.Clock.Now())
		if before != nil {
			m.state.Store(uint32(statePending))
		}
	}
	m.deleting.Store(work.DeletionTimestamp != nil)
	if work.DeletionTimestamp != nil {
		m.state.Store(uint32(stateDeleting))
	}
	if interrupt := m.interrupt.Load(); interrupt != nil && work.DeletionTimestamp != nil {
		(*interrupt)() // a request may hang, and nobody wants what it does any more
	}
	if before == nil || !m.work.Wrote(before, work) {
		s.queue.Add(s.request(work.Name))
	}
}

// recordChanged is called for each change of a record; before is nil for a
// new one or one that is gone.
func (s *cluster) recordChanged(before, record *workv1.AppliedManifestWork) {
	if !s.ledger.Concerns(record) {
		return
	}
	s.handover.See(record)
	if before == nil {
		s.forgotten.Changed()
	}
	request := s.requestOf(record)
	s.memory(request).record.Seen(record)
	if before != nil && before.UID == record.UID &&
		before.DeletionTimestamp.Equal(record.DeletionTimestamp) && slices.Equal(before.Finalizers, record.Finalizers) &&
		before.Annotations[workv1.AnnotationClaimedBy] == record.Annotations[workv1.AnnotationClaimedBy] &&
		before.Annotations[workv1.AnnotationClaimDenied] == record.Annotations[workv1.AnnotationClaimDenied] &&
		equality.Semantic.DeepEqual(before.Spec, record.Spec) {
		return // what only we write
	}
	s.queue.Add(request)
}

// objectChanged is called by the inventory.
func (s *cluster) objectChanged(change inventory.Change) {
	if change.Minor {
		for _, owner := range change.Owners {
			s.observe(s.requestFor(owner.Name), change.Object)
		}
		return
	}
	for _, owner := range change.Owners {
		if change.Gone && s.leaving.Has(owner.UID) && s.inventory.Owns(owner.UID) > 0 {
			continue
		}
		request := s.requestFor(owner.Name)
		switch m := s.remembered(request); {
		case m != nil:
			m.times.member.begin(s.options.Clock.Now())
		case !s.ledger.Has(owner.Name):
			continue // a name that the member has made up: the queue is that of all clusters
		}
		s.queue.Add(request)
	}
	for _, work := range s.waiters.Take(change.Object) {
		s.queue.Add(s.request(work))
	}
	if change.Object.Resource == "customresourcedefinitions" {
		s.arrivals.came(change.Object.Resource, change.Object.Name)
	}
}

// unmanagedChanged is called for objects that works only read.
func (s *cluster) unmanagedChanged(object apply.Object, works []string) {
	for _, work := range works {
		s.observe(s.request(work), object)
	}
}

// observe makes a work come again if it observes the object that changed, as
// soon as its pace allows.
func (s *cluster) observe(request Request, object apply.Object) {
	m := s.remembered(request)
	now := s.options.Clock.Now()
	if m == nil {
		return
	}
	if wait, observes := m.observed.Wait(object, now); observes {
		m.times.member.begin(now)
		s.queue.AddAfter(request, wait)
	}
}

// typeChanged is called by the inventory, whose users are records.
func (s *cluster) typeChanged(_ schema.GroupResource, records []string) {
	for _, record := range records {
		s.queue.Add(s.requestFor(record))
	}
}

// permissionsChanged makes the works come again soon whose executor lacked a
// permission.
func (s *cluster) permissionsChanged() {
	works, after := s.denials.Restart()
	for _, work := range works {
		s.queue.AddAfter(s.request(work), after)
	}
}

// interruptible returns a context that ends when the work is deleted.
func (m *memory) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	m.interrupt.Store(&cancel)
	return ctx, func() { m.interrupt.Store(nil); cancel() }
}
