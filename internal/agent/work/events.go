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
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/agent/work/runtime"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// watchWorks watches the works on the hub and their records on the member until ctx
// ends.
func (s *engagedCluster) watchWorks(ctx context.Context) {
	watcher := runtime.WorkWatcher{
		Connection: s.connection, Logger: s.options.Logger, Works: s.works.Cached, Records: s.ledger.Cached,
		Work: s.workChanged, Record: s.recordChanged, RecordsListed: func() { s.handover.MarkListed(); s.forgotten.MarkListed() },
	}
	s.connection.Go(func() { s.handover.RunHandover(ctx, s.options.Logger) })
	watcher.WatchWorks(ctx)
}

// workChanged is called for each change of a work; before is nil for a new one.
func (s *engagedCluster) workChanged(before, work *workv1.ManifestWork) {
	if work.Namespace != string(s.connection.Name) {
		return
	}
	if before == nil {
		s.forgotten.NotifyChanged()
		s.interpreted.requireInterpreters(work)
	}
	m := s.memoryOf(s.workRequest(work.Name))
	m.state.CompareAndSwap(uint32(stateNone), uint32(statePending))
	if plan.IsSuspended(work) {
		m.times.spec.takeStart()
	} else if before == nil || before.Generation != work.Generation || plan.IsSuspended(before) {
		m.times.spec.markStart(s.options.Clock.Now())
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
	if before == nil || !m.work.IsOwnWrite(before, work) {
		s.queue.Add(s.workRequest(work.Name))
	}
}

// recordChanged is called for each change of a record; before is nil for a
// new one or one that is gone.
func (s *engagedCluster) recordChanged(before, record *workv1.AppliedManifestWork) {
	if !s.ledger.ConcernsRecord(record) {
		return
	}
	s.handover.ObserveRecord(record)
	if before == nil {
		s.forgotten.NotifyChanged()
	}
	request := s.requestOf(record)
	s.memoryOf(request).record.ObserveRecord(record)
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
func (s *engagedCluster) objectChanged(change inventory.ObjectChange) {
	if change.Minor {
		for _, owner := range change.Owners {
			s.requeueObserver(s.requestFor(owner.Name), change.Object)
		}
		return
	}
	for _, owner := range change.Owners {
		if change.Gone && s.leaving.IsLeaving(owner.UID) && s.inventory.CountOwned(owner.UID) > 0 {
			continue
		}
		request := s.requestFor(owner.Name)
		switch m := s.existingMemory(request); {
		case m != nil:
			m.times.member.markStart(s.options.Clock.Now())
		case !s.ledger.HasRecord(owner.Name):
			continue // a name that the member has made up: the queue is that of all clusters
		}
		s.queue.Add(request)
	}
	for _, work := range s.waiters.TakeWaiters(change.Object) {
		s.queue.Add(s.workRequest(work))
	}
	if change.Object.Resource == "customresourcedefinitions" {
		s.arrivals.notifyArrival(change.Object.Resource, change.Object.Name)
	}
}

// unmanagedChanged is called for objects that works only read.
func (s *engagedCluster) unmanagedChanged(object apply.ObjectRef, works []string) {
	for _, work := range works {
		s.requeueObserver(s.workRequest(work), object)
	}
}

// requeueObserver makes a work come again if it observes the object that changed, as
// soon as its pace allows.
func (s *engagedCluster) requeueObserver(request Request, object apply.ObjectRef) {
	m := s.existingMemory(request)
	now := s.options.Clock.Now()
	if m == nil {
		return
	}
	if wait, observes := m.observed.ChangeDelay(object, now); observes {
		m.times.member.markStart(now)
		s.queue.AddAfter(request, wait)
	}
}

// typeChanged is called by the inventory, whose users are records.
func (s *engagedCluster) typeChanged(_ schema.GroupResource, records []string) {
	for _, record := range records {
		s.queue.Add(s.requestFor(record))
	}
}

// permissionsChanged makes the works come again soon whose executor lacked a
// permission.
func (s *engagedCluster) permissionsChanged() {
	works, after := s.denials.RetryAll()
	for _, work := range works {
		s.queue.AddAfter(s.workRequest(work), after)
	}
}

// interruptibleContext returns a context that ends when the work is deleted.
func (m *passMemory) interruptibleContext(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	m.interrupt.Store(&cancel)
	return ctx, func() { m.interrupt.Store(nil); cancel() }
}
