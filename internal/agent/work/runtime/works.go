// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/compressed"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// HubWorks are the ManifestWorks of one cluster as the hub has them.
type HubWorks struct {
	// Cached reads from the cache, Client writes to the hub, and Reader asks it.
	Cached *compressed.ObjectStore[*workv1.ManifestWork]
	Client client.Client
	Reader client.Reader
	// Metadata writes to the hub without getting the manifests back.
	Metadata  metadata.Interface
	Namespace string
}

// WorkMemory is what is remembered of a work from pass to pass. The zero value
// is that of one never seen. Only the pass that is under way uses it, but for
// IsOwnWrite.
type WorkMemory struct {
	// status is the work as last written, until the cache has caught up. It lacks
	// what its status does not need.
	status atomic.Pointer[workv1.ManifestWork]
	// written is the resourceVersion of the work after our last write.
	written atomic.Pointer[string]
	// finished is a work whose finalizer we removed; the cache may still have it.
	finished types.UID
}

// IsOwnWrite reports whether a change of the work is what we wrote ourselves. It is
// safe for concurrent use.
func (m *WorkMemory) IsOwnWrite(before, after *workv1.ManifestWork) bool {
	written := m.written.Load()
	if written == nil || *written != after.ResourceVersion ||
		before.Generation != after.Generation || !before.DeletionTimestamp.Equal(after.DeletionTimestamp) {
		return false
	}
	m.status.Store(nil)
	return true
}

// ReadWork returns the work as the cache has it, or with the status that was
// written if the cache does not have that yet; nil if there is none. Others use
// it, too.
func (w *HubWorks) ReadWork(ctx context.Context, name string, memory *WorkMemory) (*workv1.ManifestWork, error) {
	written := memory.status.Load() // before the cache is read: it is let go of when the cache has it
	key := client.ObjectKey{Namespace: w.Namespace, Name: name}
	work, err := w.Cached.Get(ctx, key)
	if apierrors.IsNotFound(err) {
		memory.status.Store(nil)
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, fmt.Errorf("reading manifestwork %q: %w", key, err)
	}
	return memory.mergeWritten(work, written), nil
}

// mergeWritten returns the work as the cache has it, or with the status that was
// written if the cache does not have that yet.
func (m *WorkMemory) mergeWritten(cached, written *workv1.ManifestWork) *workv1.ManifestWork {
	if written == nil || written.UID != cached.UID || apply.NewestVersion(cached, written) == cached {
		m.status.CompareAndSwap(written, nil) // the cache has caught up
		return cached
	}
	if written.Generation != cached.Generation {
		return cached // what we wrote was about a later generation; its event is to come
	}
	merged := *cached
	merged.Status = written.Status
	merged.ResourceVersion = written.ResourceVersion
	return &merged
}

// WriteStatus writes the status of a work if it changed, and reports whether it did.
// The patch does without the manifests, which can be large.
func (w *HubWorks) WriteStatus(
	ctx context.Context, before *workv1.ManifestWork, status *workv1.ManifestWorkStatus, memory *WorkMemory,
) (written bool, err error) {
	if equality.Semantic.DeepEqual(&before.Status, status) {
		return false, nil
	}
	slim := func(status *workv1.ManifestWorkStatus) *workv1.ManifestWork {
		return &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: before.Namespace, Name: before.Name, UID: before.UID, ResourceVersion: before.ResourceVersion,
			},
			Status: *status,
		}
	}
	after := slim(status)
	patch, err := client.MergeFromWithOptions(slim(&before.Status), client.MergeFromWithOptimisticLock{}).Data(after)
	if err != nil {
		return false, fmt.Errorf("encoding the status of manifestwork %q: %w", before.Name, err)
	}
	// The answer is metadata only: it would have the manifests, too.
	answer, err := w.metadataClient().Patch(ctx, before.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		if apierrors.IsConflict(err) {
			memory.status.Store(nil) // a hub that was restored does not get to what was written before
		}
		return false, fmt.Errorf("reporting on manifestwork %q: %w", before.Name, err)
	}
	after.ResourceVersion = answer.ResourceVersion
	after.Generation = answer.Generation
	memory.status.Store(after)
	version := after.ResourceVersion // alone, or it would keep all of after
	memory.written.Store(&version)
	return true, nil
}

func (w *HubWorks) metadataClient() metadata.ResourceInterface {
	return w.Metadata.Resource(workv1.GroupVersion.WithResource("manifestworks")).Namespace(w.Namespace)
}

// HasFinalizer reports whether the finalizer keeps the work that is there so
// that what it brought can be removed.
func HasFinalizer(work metav1.Object) bool {
	return slices.Contains(work.GetFinalizers(), workv1.FinalizerManifestWorkCleanup)
}

// IsFinished reports whether there is nothing to be done any more for a work that
// is being deleted: others keep it, or we let go of it and the cache does not know
// yet. That is what the hub is asked then: one that was restored from a snapshot
// has the work again.
func (w *HubWorks) IsFinished(ctx context.Context, work *workv1.ManifestWork, memory *WorkMemory) (bool, error) {
	if !HasFinalizer(work) {
		return true, nil
	}
	if memory.finished != work.UID {
		return false, nil
	}
	now, err := w.metadataClient().Get(ctx, work.Name, metav1.GetOptions{})
	// The hub takes the permission to read works back when a cluster that leaves has
	// none left, and the connection ends with it.
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading manifestwork %q: %w", work.Name, err)
	}
	return now.UID != work.UID || !HasFinalizer(now), nil
}

// AddFinalizer adds the finalizer that admission adds as a rule.
func (w *HubWorks) AddFinalizer(ctx context.Context, work *workv1.ManifestWork) error {
	return w.changeFinalizers(ctx, work, func(finalizers []string) []string {
		return append(finalizers, workv1.FinalizerManifestWorkCleanup)
	})
}

// FinishWork lets go of a work that has nothing on the member any more.
func (w *HubWorks) FinishWork(ctx context.Context, work *workv1.ManifestWork, memory *WorkMemory) error {
	if !HasFinalizer(work) {
		return nil
	}
	err := w.changeFinalizers(ctx, work, withoutFinalizer)
	if err == nil {
		memory.finished = work.UID
	}
	return err
}

func withoutFinalizer(finalizers []string) []string {
	return slices.DeleteFunc(finalizers, func(f string) bool { return f == workv1.FinalizerManifestWorkCleanup })
}

// changeFinalizers writes the work whole, as hubs let agents update works but
// not patch them. A conflict is retried with what the hub has now.
func (w *HubWorks) changeFinalizers(ctx context.Context, work *workv1.ManifestWork, change func([]string) []string) error {
	after := work.DeepCopy()
	after.Finalizers = change(after.Finalizers)
	err := w.Client.Update(ctx, after)
	if apierrors.IsConflict(err) {
		if err = w.Reader.Get(ctx, client.ObjectKeyFromObject(work), after); err == nil {
			after.Finalizers = change(withoutFinalizer(after.Finalizers))
			err = w.Client.Update(ctx, after)
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing the finalizers of manifestwork %q: %w", work.Name, err)
	}
	return nil
}
