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
	"github.com/capstan-io/capstan/internal/fleet"
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
	records, ok := s.informer(ctx, "watching AppliedManifestWorks", s.connection.Spoke.GetCache(), &workv1.AppliedManifestWork{})
	if !ok {
		return
	}
	works, ok := s.informer(ctx, "watching ManifestWorks", s.connection.Hub.GetCache(), &workv1.ManifestWork{})
	// Without the records a work looks as if it were new.
	if !ok || !fleet.Synced(ctx, records.HasSyncedChecker(), works.HasSyncedChecker()) {
		return
	}
	defer s.handle(records, s.recordChanged)()
	defer s.handle(works, s.workChanged)()
	<-ctx.Done()
}

// informer begins to watch a type, and tells whether it did before ctx ended.
// It does not wait for what there is.
func (s *site) informer(ctx context.Context, what string, from cache.Cache, obj client.Object) (informer cache.Informer, ok bool) {
	ok = s.retry(ctx, what, func(ctx context.Context) (err error) {
		informer, err = from.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		return err
	})
	return informer, ok
}

// handle makes the function be told of each change of the objects of an
// informer, which others may share: of what was before, nil if it is new or
// gone, and of what is now. It returns how to end that.
func (s *site) handle(informer cache.Informer, changed func(before, after any)) (remove func()) {
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed(nil, obj) },
		UpdateFunc: changed,
		DeleteFunc: func(obj any) { changed(nil, obj) },
	})
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
	if interrupt := st.interrupt.Load(); interrupt != nil && work.DeletionTimestamp != nil {
		(*interrupt)() // a request may hang, and nobody wants what it does any more
	}
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
	request := s.requestOf(record)
	st := s.state(cmp.Or(request.Work, request.Applied))
	if written := st.record.Load(); written != nil && written.ResourceVersion == record.ResourceVersion {
		st.record.CompareAndSwap(written, nil)
	}
	if old, ok := before.(*workv1.AppliedManifestWork); ok && old.UID == record.UID &&
		old.DeletionTimestamp.Equal(record.DeletionTimestamp) && slices.Equal(old.Finalizers, record.Finalizers) &&
		old.Annotations[workv1.AnnotationClaimedBy] == record.Annotations[workv1.AnnotationClaimedBy] &&
		old.Annotations[workv1.AnnotationClaimDenied] == record.Annotations[workv1.AnnotationClaimDenied] &&
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
