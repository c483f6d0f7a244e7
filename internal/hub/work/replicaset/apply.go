// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/deletion"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance/counting"
)

const (
	// writesAtOnce is how many works of one replica set are written at a time.
	writesAtOnce = 32
	// writesPerPass is how many are written until the replica set is read anew and
	// others have had their turn.
	writesPerPass = 500
	// blockedAgain is how soon to look again for what a work could not be created:
	// another has its name, or the cluster has no namespace.
	blockedAgain = 5 * time.Second
	// labelOwner is the field owner of labels and annotations that are changed.
	labelOwner = "work-controller-labels"
	// errorsTold is how many errors are told of.
	errorsTold = 5
)

// limitToPass returns what of the plan fits a pass, and whether that is all. What goes makes room.
func limitToPass(p rolloutPlan) (rolloutPlan, bool) {
	gone := min(len(p.Gone), writesPerPass)
	writes := min(len(p.Writes), writesPerPass-gone)
	all := gone == len(p.Gone) && writes == len(p.Writes)
	p.Gone, p.Writes = p.Gone[:gone], p.Writes[:writes]
	return p, all
}

// limitPlan takes out of the plan what the allowance of the namespace does not let through now. Labels,
// annotations and deletions need no room, but API servers store the whole work with each write of them.
func (c *WorkReplicaSetController) limitPlan(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, p rolloutPlan, bytes int64) (rolloutPlan, allowance.HeldWorks, error) {
	owner := allowance.WorkOwner{Namespace: set.Namespace}
	if _, err := counting.TakeLimit(ctx, c.Client, c.Allowance, owner); err != nil {
		return p, allowance.HeldWorks{}, err //nolint:wrapcheck // it names the namespace
	}
	var gone allowance.HeldWorks
	p.Gone, gone = c.Allowance.AdmitDeletions(owner, allowanceDeletions(p.Gone))
	name := workName(client.ObjectKeyFromObject(set))
	var specs, labels []allowance.WorkWrite
	for _, w := range p.Writes {
		if w.Spec {
			specs = append(specs, w.allowanceWrite(name, bytes))
		}
	}
	held := c.Allowance.AdmitWrites(owner, specs)
	p = p.withoutHeld(held)
	for _, w := range p.Writes {
		if !w.Spec {
			labels = append(labels, w.allowanceWrite(name, allowance.WorkBytes(w.Work)))
		}
	}
	late := c.Allowance.AdmitWrites(owner, labels)
	p.Writes = slices.DeleteFunc(p.Writes, func(w workWrite) bool { return !w.Spec && late.Clusters[w.Cluster] != nil })
	return p, gone.MergeHeld(held).MergeHeld(late), nil
}

// allowanceDeletions returns what API servers store when works are deleted: each of them once.
func allowanceDeletions(works []*workv1.ManifestWork) (all []allowance.WorkDeletion) {
	for _, work := range works {
		all = append(all, allowance.WorkDeletion{Work: work, Writes: 1})
	}
	return all
}

// allowanceWrite returns what a write takes up that makes the work so many bytes; name is that of a new one.
func (w workWrite) allowanceWrite(name string, bytes int64) allowance.WorkWrite {
	takes := allowance.WorkWrite{Work: types.NamespacedName{Namespace: w.Cluster, Name: name}, Bytes: bytes}
	if w.Work != nil {
		takes.Work.Name, takes.Has, takes.Version = w.Work.Name, allowance.WorkBytes(w.Work), w.Work.ResourceVersion
		takes.Repairs = w.Spec && w.Repairs
	}
	return takes
}

// withoutHeld returns the plan without the specs that are held back.
func (p rolloutPlan) withoutHeld(held allowance.HeldWorks) rolloutPlan {
	var writes []workWrite
	for _, w := range p.Writes {
		if held.Clusters[w.Cluster] != nil {
			w.Spec = false
		}
		if w.Spec || w.Meta {
			writes = append(writes, w)
		}
	}
	p.Writes = writes
	return p
}

// applyPlan writes what the plan says.
func (c *WorkReplicaSetController) applyPlan(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, p rolloutPlan) error {
	owner := allowance.WorkOwner{Namespace: set.Namespace}
	tasks := make([]func() error, 0, len(p.Gone)+len(p.Writes))
	for _, work := range p.Gone {
		tasks = append(tasks, func() error {
			err := c.deleteWork(ctx, work)
			if err != nil {
				c.Allowance.ReportFailedWrites(owner, work.Name, map[string]error{work.Namespace: err})
			}
			return err
		})
	}
	for _, w := range p.Writes {
		tasks = append(tasks, func() error {
			err := c.writeWork(ctx, set, w)
			if err != nil && w.Work == nil {
				c.Allowance.ReportFailedWrites(owner, workName(client.ObjectKeyFromObject(set)), map[string]error{w.Cluster: err})
			} else if err != nil {
				c.Allowance.ReportFailedWrites(owner, w.Work.Name, map[string]error{w.Cluster: err})
			}
			return err
		})
	}
	return inParallel(tasks)
}

// inParallel does all tasks, some at a time, and returns the first errors.
func inParallel(tasks []func() error) error {
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	var mu sync.Mutex
	var failed []error
	for _, task := range tasks {
		group.Go(func() error {
			if err := task(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
			return nil
		})
	}
	_ = group.Wait() // every task has kept its error
	return joinErrors(failed)
}

// joinErrors joins the first errors.
func joinErrors(errs []error) error {
	if more := len(errs) - errorsTold; more > 0 {
		errs = append(errs[:errorsTold:errorsTold], fmt.Errorf("%d more errors", more))
	}
	return errors.Join(errs...)
}

// writeWork creates or changes one work.
func (c *WorkReplicaSetController) writeWork(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, w workWrite) error {
	if w.Work == nil {
		return c.createWork(ctx, newWork(set, w.Cluster, w.Placement))
	}
	target := workReference(w.Work)
	target.Annotations = maps.Clone(w.Work.Annotations) // of a patch by a tracing client
	delete(target.Annotations, keptHash)
	delete(target.Annotations, allowance.AnnotationBytes)
	if w.Meta {
		target = workReference(w.Work) // becomes what there is afterwards
		if err := c.labelWork(ctx, set, w, target); err != nil {
			return err
		}
	}
	if !w.Spec {
		return nil
	}
	// The spec is replaced as a whole, which a merge would not. The work is still
	// the one that was looked at.
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": w.Work.UID},
		{"op": "replace", "path": "/spec", "value": set.Spec.ManifestWorkTemplate},
	})
	if err != nil {
		return fmt.Errorf("encoding the template: %w", err)
	}
	if err := c.patchWork(ctx, target, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return err
	}
	c.seen.recordWrite(client.ObjectKeyFromObject(set), w)
	return nil
}

// createWork creates a work. One that exists already is ours, and was made by another
// replica or just before a crash: the watch brings it.
func (c *WorkReplicaSetController) createWork(ctx context.Context, work *workv1.ManifestWork) error {
	err := c.Client.Create(ctx, work)
	if !apierrors.IsAlreadyExists(err) {
		return wrapWorkError("creating", work, err)
	}
	existing := &workv1.ManifestWork{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(work), existing); err != nil {
		return wrapWorkError("reading", work, client.IgnoreNotFound(err))
	}
	if existing.Labels[workv1.LabelManifestWorkReplicaSet] != work.Labels[workv1.LabelManifestWorkReplicaSet] {
		return foreignError{client.ObjectKeyFromObject(work)}
	}
	return nil
}

// foreignError says that a work of the name is somebody else's.
type foreignError struct{ work types.NamespacedName }

func (e foreignError) Error() string {
	return fmt.Sprintf("ManifestWork %q exists and does not belong to this ManifestWorkReplicaSet: delete it, or rename this one", e.work)
}

// labelWork writes the label and the annotation of a work. The spec, and so the
// generation, remains as it is.
func (c *WorkReplicaSetController) labelWork(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, w workWrite, target *workv1.ManifestWork) error {
	var health any // null removes it
	if value, ok := copiedHealth(set); ok {
		health = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         w.Work.UID,
		"labels":      map[string]any{workv1.LabelPlacementName: w.Placement},
		"annotations": map[string]any{workv1.AnnotationReportHealth: health},
	}})
	if err != nil {
		return fmt.Errorf("encoding labels: %w", err)
	}
	// With a field owner of its own, the time when the spec was written stays.
	return c.patchWork(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(labelOwner))
}

// workReference returns what a request about a work needs of it.
func workReference(work *workv1.ManifestWork) *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
}

func (c *WorkReplicaSetController) patchWork(ctx context.Context, target *workv1.ManifestWork, patch client.Patch, options ...client.PatchOption) error {
	return wrapWorkError("changing", target, client.IgnoreNotFound(c.Client.Patch(ctx, target, patch, options...)))
}

// deleteWork deletes the work that was looked at, not a later one of its name.
func (c *WorkReplicaSetController) deleteWork(ctx context.Context, work *workv1.ManifestWork) error {
	err := deletion.DeleteObject(ctx, c.Client, work, nil)
	if apierrors.IsConflict(err) {
		return nil
	}
	return wrapWorkError("deleting", work, client.IgnoreNotFound(err))
}

func wrapWorkError(doing string, work client.Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s ManifestWork %q: %w", doing, client.ObjectKeyFromObject(work), err)
}
