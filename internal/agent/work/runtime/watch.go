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

// WorkWatcher watches the works of a cluster on the hub, and their records on the
// member.
type WorkWatcher struct {
	Connection *fleet.Connection
	Logger     logr.Logger
	Works      *compressed.ObjectStore[*workv1.ManifestWork]
	Records    *compressed.ObjectStore[*workv1.AppliedManifestWork]
	// Work and Record are called for each change: before is nil for what is new,
	// and for a record that is gone. They have to return soon.
	Work   func(before, after *workv1.ManifestWork)
	Record func(before, after *workv1.AppliedManifestWork)
	// RecordsListed is called once Record was for all records that there are.
	RecordsListed func()
}

// WatchWorks watches until ctx ends.
func (w *WorkWatcher) WatchWorks(ctx context.Context) {
	if !w.retryUntil(ctx, "reading the works on the hub", w.checkListAccess) {
		return
	}
	records, ok := w.startInformer(ctx, "watching AppliedManifestWorks", w.Records.ObjectInformer)
	if !ok {
		return
	}
	works, ok := w.startInformer(ctx, "watching ManifestWorks", w.Works.ObjectInformer)
	// Without the records a work looks as if it were new.
	if !ok || !fleet.AwaitSynced(ctx, records.HasSyncedChecker(), works.HasSyncedChecker()) {
		return
	}
	listed, remove := w.addHandler(records, typedHandler(w.Record))
	defer remove()
	_, remove = w.addHandler(works, typedHandler(w.Work))
	defer remove()
	if fleet.AwaitSynced(ctx, listed) {
		w.RecordsListed()
	}
	<-ctx.Done()
}

// typedHandler makes a function for changes of one kind one for those of any.
func typedHandler[T client.Object](changed func(before, after T)) func(before, after any) {
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

// startInformer begins to watch a type, and reports whether it did before ctx ended.
// It does not wait for what there is.
func (w *WorkWatcher) startInformer(
	ctx context.Context, what string, get func(context.Context, ...cache.InformerGetOption) (cache.Informer, error),
) (informer cache.Informer, ok bool) {
	ok = w.retryUntil(ctx, what, func(ctx context.Context) (err error) {
		informer, err = get(ctx, cache.BlockUntilSynced(false))
		return err
	})
	return informer, ok
}

// addHandler makes the function be told of each change of the objects of an
// informer, which others may share: of what was before, nil if it is new or
// gone, and of what is now. It returns what is done when it was told of all that
// there was, and how to end that.
func (w *WorkWatcher) addHandler(informer cache.Informer, changed func(before, after any)) (listed toolscache.DoneChecker, remove func()) {
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

// retryUntil calls a function until it succeeds, and reports whether it did before
// ctx ended.
func (w *WorkWatcher) retryUntil(ctx context.Context, what string, try func(context.Context) error) bool {
	for wait := backoff.ExponentialBetween(permissionRetryMin, permissionRetryMax); ; {
		err := try(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		w.Logger.V(1).Info("Trying again", "part", what, "cluster", w.Connection.Name, "problem", err.Error())
		if !backoff.SleepContext(ctx, clock.RealClock{}, wait.Step()) {
			return false
		}
	}
}

// checkListAccess returns an error as long as the works cannot be read, which is so
// until the cluster is accepted: an informer that starts too early takes long
// to recover.
func (w *WorkWatcher) checkListAccess(ctx context.Context) error {
	err := w.Connection.Hub.GetAPIReader().List(ctx, &workv1.ManifestWorkList{},
		client.InNamespace(w.Connection.Name), client.Limit(1))
	if err != nil {
		return fmt.Errorf("listing manifestworks of cluster %q: %w", w.Connection.Name, err)
	}
	return nil
}
