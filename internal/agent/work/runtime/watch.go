// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/compressed"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/backoff"
)

// The time between attempts to read works that the hub does not let us read
// yet doubles from the first to the last.
const (
	permissionRetryMin = 100 * time.Millisecond
	permissionRetryMax = 5 * time.Second
)

// Watcher watches the works of a cluster on the hub, and their records on the
// member.
type Watcher struct {
	Connection *fleet.Connection
	Logger     logr.Logger
	Works      *compressed.Store[*workv1.ManifestWork]
	Records    *compressed.Store[*workv1.AppliedManifestWork]
	// Work and Record are called for each change: before is nil for what is new,
	// and for a record that is gone. They have to return soon.
	Work   func(before, after *workv1.ManifestWork)
	Record func(before, after *workv1.AppliedManifestWork)
	// RecordsListed is called once Record was for all records that there are.
	RecordsListed func()
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	if !w.retry(ctx, "reading the works on the hub", w.mayList) {
		return
	}
	records, ok := w.informer(ctx, "watching AppliedManifestWorks", w.Records.Informer)
	if !ok {
		return
	}
	works, ok := w.informer(ctx, "watching ManifestWorks", w.Works.Informer)
	// Without the records a work looks as if it were new.
	if !ok || !fleet.Synced(ctx, records.HasSyncedChecker(), works.HasSyncedChecker()) {
		return
	}
	listed, remove := w.handle(records, typed(w.Record))
	defer remove()
	_, remove = w.handle(works, typed(w.Work))
	defer remove()
	if fleet.Synced(ctx, listed) {
		w.RecordsListed()
	}
	<-ctx.Done()
}

// typed makes a function for changes of one kind one for those of any.
func typed[T client.Object](changed func(before, after T)) func(before, after any) {
	return func(before, after any) {
		if tombstone, ok := after.(toolscache.DeletedFinalStateUnknown); ok {
			after = tombstone.Obj
		}
		old, _ := before.(T)
		if object, ok := after.(T); ok {
			changed(old, object)
		}
	}
}

// informer begins to watch a type, and tells whether it did before ctx ended.
// It does not wait for what there is.
func (w *Watcher) informer(
	ctx context.Context, what string, get func(context.Context, ...cache.InformerGetOption) (cache.Informer, error),
) (informer cache.Informer, ok bool) {
	ok = w.retry(ctx, what, func(ctx context.Context) (err error) {
		informer, err = get(ctx, cache.BlockUntilSynced(false))
		return err
	})
	return informer, ok
}

// handle makes the function be told of each change of the objects of an
// informer, which others may share: of what was before, nil if it is new or
// gone, and of what is now. It returns what is done when it was told of all that
// there was, and how to end that.
func (w *Watcher) handle(informer cache.Informer, changed func(before, after any)) (listed toolscache.DoneChecker, remove func()) {
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed(nil, obj) },
		UpdateFunc: changed,
		DeleteFunc: func(obj any) { changed(nil, obj) },
	})
	if err != nil { // the informer has stopped, and so will we
		return informer.HasSyncedChecker(), func() {}
	}
	return registration.HasSyncedChecker(), func() {
		if err := informer.RemoveEventHandler(registration); err != nil {
			w.Logger.Error(err, "Cannot stop watching", "cluster", w.Connection.Name)
		}
	}
}

// retry calls a function until it succeeds, and tells whether it did before
// ctx ended.
func (w *Watcher) retry(ctx context.Context, what string, try func(context.Context) error) bool {
	for wait := backoff.Between(permissionRetryMin, permissionRetryMax); ; {
		err := try(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		w.Logger.V(1).Info("Trying again", "part", what, "cluster", w.Connection.Name, "problem", err.Error())
		if !backoff.Sleep(ctx, clock.RealClock{}, wait.Step()) {
			return false
		}
	}
}

// mayList returns an error as long as the works cannot be read, which is so
// until the cluster is accepted: an informer that starts too early takes long
// to recover.
func (w *Watcher) mayList(ctx context.Context) error {
	err := w.Connection.Hub.GetAPIReader().List(ctx, &workv1.ManifestWorkList{},
		client.InNamespace(w.Connection.Name), client.Limit(1))
	if err != nil {
		return fmt.Errorf("listing manifestworks of cluster %q: %w", w.Connection.Name, err)
	}
	return nil
}
