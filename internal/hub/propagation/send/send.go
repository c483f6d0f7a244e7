// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package send writes works to the hub.
package send

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/kube/deletion"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// ErrNoNamespace says that a cluster cannot be sent anything yet.
var ErrNoNamespace = errors.New("the cluster has no namespace on the hub: accept the cluster first (capstan accept)")

// writesAtOnce is how many works of one object are written at a time.
const writesAtOnce = 16

// WorkWriter writes works.
type WorkWriter struct {
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Created  *ownwrites.CreatedWorks
	Restless *RestlessWorks
}

// WriteChanges makes the changes, several at a time. An object that moves goes to its
// new clusters before it leaves the others. It returns what went wrong, by cluster.
func (w WorkWriter) WriteChanges(ctx context.Context, changes deliver.WorkChanges) map[string]error {
	var writes, removals []task
	for _, work := range changes.New {
		writes = append(writes, task{work.Namespace, func() error { return w.createWork(ctx, work) }})
	}
	for _, change := range changes.Changed {
		writes = append(writes, task{change.Present.Namespace, func() error { return w.patchWork(ctx, change) }})
	}
	for i := range changes.Gone {
		work := &changes.Gone[i]
		removals = append(removals, task{work.Namespace, func() error { return w.deleteWork(ctx, work, changes.Preserve) }})
	}
	failed := inParallel(writes)
	maps.Copy(failed, inParallel(removals))
	return failed
}

// task is about the work of one cluster.
type task struct {
	cluster string
	do      func() error
}

// inParallel does all tasks, some at a time, and returns their errors by cluster.
func inParallel(tasks []task) map[string]error {
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	var mu sync.Mutex
	failed := map[string]error{}
	for _, t := range tasks {
		group.Go(func() error {
			if err := t.do(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[t.cluster] = err
			}
			return nil
		})
	}
	_ = group.Wait() // every task has kept its error
	return failed
}

// JoinErrors returns the errors as one, in the order of the clusters.
func JoinErrors(failed map[string]error) error {
	var all []error
	for _, cluster := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, failed[cluster])
	}
	return errors.Join(all...)
}

// TakePassingErrors takes those errors out that pass when the cache has caught up, and
// returns them as one.
func TakePassingErrors(failed map[string]error) error {
	passing := map[string]error{}
	for cluster, err := range failed {
		if apierrors.IsConflict(err) {
			passing[cluster] = err
			delete(failed, cluster)
		}
	}
	return JoinErrors(passing)
}

// createWork creates a work. One of the name that is there already was made just
// before, and the cache shows it soon, or is in the way.
func (w WorkWriter) createWork(ctx context.Context, work *workv1.ManifestWork) error {
	key := client.ObjectKeyFromObject(work)
	if !w.Created.BeginCreate(key) {
		return nil
	}
	shown, err := w.isWorkCached(ctx, work)
	if !shown && err == nil {
		err = w.Restless.beginCreate(work)
	}
	if shown || err != nil {
		w.Created.ForgetWork(key)
		return err
	}
	err = w.Client.Create(ctx, work)
	if err == nil {
		return nil
	}
	w.Created.ForgetWork(key)
	if apierrors.IsAlreadyExists(err) {
		return w.nameTakenError(ctx, work, err)
	}
	if apierrors.IsNotFound(err) {
		err = ErrNoNamespace
	}
	return fmt.Errorf("creating ManifestWork %q: %w", key, withRemedy(err))
}

// nameTakenError returns the error of a work whose name another has. It is a conflict if the
// cache shows ours soon, or the other one has gone.
func (w WorkWriter) nameTakenError(ctx context.Context, work *workv1.ManifestWork, err error) error {
	key := client.ObjectKeyFromObject(work)
	present := &workv1.ManifestWork{}
	if w.Live.Get(ctx, key, present) == nil {
		if !present.DeletionTimestamp.IsZero() {
			return earlierWorkError(present)
		}
		if !isRelatedWork(present, work) {
			return fmt.Errorf("cluster %q has another ManifestWork %q, which is not of this object: delete that one, or give the object another name", key.Namespace, key.Name)
		}
	}
	conflict := apierrors.NewConflict(workv1.GroupVersion.WithResource("manifestworks").GroupResource(), work.Name, err)
	return fmt.Errorf("creating ManifestWork %q: %w", key, conflict)
}

// isRelatedWork reports whether a work is one that we take over or remove: of the same binding, or
// of a namespace.
func isRelatedWork(present, work *workv1.ManifestWork) bool {
	of := deliver.BindingOf(work)
	return deliver.OfNamespace(present) != "" || of.Name != "" && deliver.BindingOf(present) == of
}

// isWorkCached reports whether the cache shows a work by now that it did not show when it was
// looked for: what is not awaited any more may have come since.
func (w WorkWriter) isWorkCached(ctx context.Context, work *workv1.ManifestWork) (bool, error) {
	is := &workv1.ManifestWork{}
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(work), is, client.UnsafeDisableDeepCopy); err != nil {
		return false, nil //nolint:nilerr // whoever creates it hears of it
	}
	if !is.DeletionTimestamp.IsZero() {
		return false, earlierWorkError(is)
	}
	const id = karmadaworkv1alpha1.LabelPermanentID
	return is.Labels[id] != "" && is.Labels[id] == work.Labels[id] &&
		deliver.BindingOf(is) == deliver.BindingOf(work) && deliver.BindingID(is) == deliver.BindingID(work) &&
		is.Labels[deliver.LabelNamespace] == work.Labels[deliver.LabelNamespace], nil
}

// withRemedy says what to do about an object that the hub cannot store another time.
// That etcd refuses it is known by its words only.
func withRemedy(err error) error {
	if deletion.IsTooLarge(err) {
		return fmt.Errorf("%w: the object is too large to be sent; make it smaller, or split it", err)
	}
	return err
}

func (w WorkWriter) patchWork(ctx context.Context, change deliver.WorkChange) error {
	if err := w.Restless.beginChange(change); err != nil {
		return err
	}
	body, err := change.MergePatch()
	if err != nil {
		return err
	}
	err = w.Client.Patch(ctx, change.Present.DeepCopy(), client.RawPatch(types.MergePatchType, body))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing ManifestWork %q: %w", client.ObjectKeyFromObject(change.Present), withRemedy(err))
	}
	return nil
}

// deleteWork deletes a work. One that is to preserve what it delivered may not say so
// yet: somebody has asked for that a moment ago.
func (w WorkWriter) deleteWork(ctx context.Context, work *workv1.ManifestWork, preserve bool) error {
	if !work.DeletionTimestamp.IsZero() {
		return nil
	}
	if preserve && !preservesObjects(work) {
		body := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"deleteOption":{"propagationPolicy":%q}}}`, work.UID, workv1.DeletePropagationPolicyOrphan)
		err := w.Client.Patch(ctx, work.DeepCopy(), client.RawPatch(types.MergePatchType, body))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("letting ManifestWork %q preserve what it delivered: %w", client.ObjectKeyFromObject(work), err)
		}
	}
	w.Restless.recordDeletion(work)
	if err := deletion.DeleteObject(ctx, w.Client, work, nil); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	return nil
}

func preservesObjects(work *workv1.ManifestWork) bool {
	return work.Spec.DeleteOption != nil && work.Spec.DeleteOption.PropagationPolicy == workv1.DeletePropagationPolicyOrphan
}

// WritesToRemove returns how often API servers store a work whole until it is deleted.
func WritesToRemove(work *workv1.ManifestWork, preserve bool) int64 {
	writes := int64(1)
	if preserve && !preservesObjects(work) {
		writes++
	}
	return writes
}
