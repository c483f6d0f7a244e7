// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// The time between attempts to read works that the hub does not let us read
// yet doubles from the first to the last.
const (
	permissionRetryMin = 100 * time.Millisecond
	permissionRetryMax = 5 * time.Second
)

// run watches the works on the hub and their records on the member until ctx
// ends.
func (s *site) run(ctx context.Context) {
	if !s.retry(ctx, "reading the works on the hub", s.mayList) {
		return
	}
	var works, records cache.Informer
	// The records come first: without them a work looks as if it were new.
	if !s.retry(ctx, "watching AppliedManifestWorks", func(ctx context.Context) (err error) {
		records, err = s.connection.Spoke.GetCache().GetInformer(ctx, &workv1.AppliedManifestWork{})
		return err
	}) || !s.retry(ctx, "watching ManifestWorks", func(ctx context.Context) (err error) {
		works, err = s.connection.Hub.GetCache().GetInformer(ctx, &workv1.ManifestWork{})
		return err
	}) {
		return
	}
	remove := s.handle(ctx, records, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.recordChanged(nil, obj) },
		UpdateFunc: s.recordChanged,
		DeleteFunc: func(obj any) { s.recordChanged(nil, obj) },
	})
	defer remove()
	remove = s.handle(ctx, works, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.workChanged(nil, obj) },
		UpdateFunc: s.workChanged,
		DeleteFunc: func(obj any) { s.workChanged(nil, obj) },
	})
	defer remove()
	<-ctx.Done()
}

// handle adds a handler to an informer, which others may share, and returns
// how to remove it.
func (s *site) handle(_ context.Context, informer cache.Informer, handler toolscache.ResourceEventHandler) func() {
	registration, err := informer.AddEventHandler(handler)
	if err != nil { // the informer has stopped, and so will we
		return func() {}
	}
	return func() {
		if err := informer.RemoveEventHandler(registration); err != nil {
			s.options.Logger.Error(err, "cannot stop watching", "cluster", s.connection.Name)
		}
	}
}

// retry calls a function until it succeeds, and tells whether it did before
// ctx ended.
func (s *site) retry(ctx context.Context, what string, try func(context.Context) error) bool {
	for wait := permissionRetryMin; ; wait = min(2*wait, permissionRetryMax) {
		err := try(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		s.options.Logger.V(1).Info("trying again", "what", what, "cluster", s.connection.Name, "reason", err.Error())
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

// mayList returns an error as long as the works cannot be read, which is so
// until the cluster is accepted: an informer that starts too early takes long
// to recover.
func (s *site) mayList(ctx context.Context) error {
	err := s.connection.Hub.GetAPIReader().List(ctx, &workv1.ManifestWorkList{},
		client.InNamespace(s.connection.Name), client.Limit(1))
	if err != nil {
		return fmt.Errorf("listing manifestworks of cluster %q: %w", s.connection.Name, err)
	}
	return nil
}

// workChanged is called for each change of a work; before is nil for a new one.
func (s *site) workChanged(before, after any) {
	if tombstone, ok := after.(toolscache.DeletedFinalStateUnknown); ok {
		after = tombstone.Obj
	}
	work, ok := after.(*workv1.ManifestWork)
	if !ok || work.Namespace != string(s.connection.Name) {
		return
	}
	st := s.state(work.Name)
	st.deleting.Store(work.DeletionTimestamp != nil)
	old, ok := before.(*workv1.ManifestWork)
	if written := st.written.Load(); ok && written != nil && *written == work.ResourceVersion &&
		old.Generation == work.Generation && old.DeletionTimestamp.Equal(work.DeletionTimestamp) {
		st.work.Store(nil)
		return // what we wrote ourselves
	}
	s.queue.Add(Request{Cluster: s.connection.Name, Work: work.Name})
}

// recordChanged is called for each change of a record; before is nil for a
// new one or one that is gone.
func (s *site) recordChanged(before, after any) {
	if tombstone, ok := after.(toolscache.DeletedFinalStateUnknown); ok {
		after = tombstone.Obj
	}
	record, ok := after.(*workv1.AppliedManifestWork)
	if !ok || !s.concerns(record) {
		return
	}
	request := s.request(record.Name)
	st := s.state(cmp.Or(request.Work, request.Applied))
	if written := st.record.Load(); written != nil && written.ResourceVersion == record.ResourceVersion {
		st.record.CompareAndSwap(written, nil)
	}
	if old, ok := before.(*workv1.AppliedManifestWork); ok && old.UID == record.UID &&
		old.DeletionTimestamp.Equal(record.DeletionTimestamp) && slices.Equal(old.Finalizers, record.Finalizers) &&
		equality.Semantic.DeepEqual(old.Spec, record.Spec) {
		return // what only we write
	}
	s.queue.Add(request)
}

// concerns tells whether a record is of this hub, or of another hub that this
// agent worked for before.
func (s *site) concerns(record *workv1.AppliedManifestWork) bool {
	return record.Spec.HubHash == s.hubHash ||
		record.Spec.AgentID != "" && record.Spec.AgentID == s.connection.AgentID
}
