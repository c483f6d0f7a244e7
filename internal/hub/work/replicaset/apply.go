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

// passOf returns what of the plan fits a pass, and whether that is all. What goes makes room.
func passOf(p plan) (plan, bool) {
	gone := min(len(p.Gone), writesPerPass)
	writes := min(len(p.Writes), writesPerPass-gone)
	all := gone == len(p.Gone) && writes == len(p.Writes)
	p.Gone, p.Writes = p.Gone[:gone], p.Writes[:writes]
	return p, all
}

// limit takes out of the plan what the allowance of the namespace does not let through now. Labels,
// annotations and deletions need no room, but API servers store the whole work with each write of them.
func (c *Controller) limit(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, p plan, bytes int64) (plan, allowance.Held, error) {
	owner := allowance.Owner{Namespace: set.Namespace}
	if _, err := counting.TakeLimit(ctx, c.Client, c.Allowance, owner); err != nil {
		return p, allowance.Held{}, err //nolint:wrapcheck // it names the namespace
	}
	var gone allowance.Held
	p.Gone, gone = c.Allowance.AdmitDeletions(owner, deletions(p.Gone))
	name := workName(client.ObjectKeyFromObject(set))
	var specs, labels []allowance.Write
	for _, w := range p.Writes {
		if w.Spec {
			specs = append(specs, w.takes(name, bytes))
		}
	}
	held := c.Allowance.Admit(owner, specs)
	p = p.without(held)
	for _, w := range p.Writes {
		if !w.Spec {
			labels = append(labels, w.takes(name, allowance.Bytes(w.Work)))
		}
	}
	late := c.Allowance.Admit(owner, labels)
	p.Writes = slices.DeleteFunc(p.Writes, func(w write) bool { return !w.Spec && late.Clusters[w.Cluster] != nil })
	return p, gone.With(held).With(late), nil
}

// deletions returns what API servers store when works are deleted: each of them once.
func deletions(works []*workv1.ManifestWork) (all []allowance.Deletion) {
	for _, work := range works {
		all = append(all, allowance.Deletion{Work: work, Writes: 1})
	}
	return all
}

// takes returns what a write takes up that makes the work so many bytes; name is that of a new one.
func (w write) takes(name string, bytes int64) allowance.Write {
	takes := allowance.Write{Work: types.NamespacedName{Namespace: w.Cluster, Name: name}, Bytes: bytes}
	if w.Work != nil {
		takes.Work.Name, takes.Has, takes.Version = w.Work.Name, allowance.Bytes(w.Work), w.Work.ResourceVersion
	}
	return takes
}

// without returns the plan without the specs that are held back.
func (p plan) without(held allowance.Held) plan {
	var writes []write
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

// apply writes what the plan says.
func (c *Controller) apply(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, p plan) error {
	owner := allowance.Owner{Namespace: set.Namespace}
	tasks := make([]func() error, 0, len(p.Gone)+len(p.Writes))
	for _, work := range p.Gone {
		tasks = append(tasks, func() error {
			err := c.remove(ctx, work)
			if err != nil {
				c.Allowance.Failed(owner, work.Name, map[string]error{work.Namespace: err})
			}
			return err
		})
	}
	for _, w := range p.Writes {
		tasks = append(tasks, func() error {
			err := c.put(ctx, set, w)
			if err != nil && w.Work == nil {
				c.Allowance.Failed(owner, workName(client.ObjectKeyFromObject(set)), map[string]error{w.Cluster: err})
			} else if err != nil {
				c.Allowance.Failed(owner, w.Work.Name, map[string]error{w.Cluster: err})
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
	return joined(failed)
}

// joined joins the first errors.
func joined(errs []error) error {
	if more := len(errs) - errorsTold; more > 0 {
		errs = append(errs[:errorsTold:errorsTold], fmt.Errorf("%d more errors", more))
	}
	return errors.Join(errs...)
}

// put creates or changes one work.
func (c *Controller) put(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, w write) error {
	if w.Work == nil {
		return c.create(ctx, newWork(set, w.Cluster, w.Placement))
	}
	target := targetOf(w.Work)
	target.Annotations = maps.Clone(w.Work.Annotations) // of a patch by a tracing client
	delete(target.Annotations, keptHash)
	delete(target.Annotations, allowance.AnnotationBytes)
	if w.Meta {
		target = targetOf(w.Work) // becomes what there is afterwards
		if err := c.label(ctx, set, w, target); err != nil {
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
	if err := c.patch(ctx, target, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return err
	}
	c.seen.wrote(client.ObjectKeyFromObject(set), w)
	return nil
}

// create creates a work. One that exists already is ours, and was made by another
// replica or just before a crash: the watch brings it.
func (c *Controller) create(ctx context.Context, work *workv1.ManifestWork) error {
	err := c.Client.Create(ctx, work)
	if !apierrors.IsAlreadyExists(err) {
		return wrap("creating", work, err)
	}
	existing := &workv1.ManifestWork{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(work), existing); err != nil {
		return wrap("reading", work, client.IgnoreNotFound(err))
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

// label writes the label and the annotation of a work. The spec, and so the
// generation, remains as it is.
func (c *Controller) label(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, w write, target *workv1.ManifestWork) error {
	var health any // null removes it
	if value, ok := set.Annotations[workv1.AnnotationReportHealth]; ok {
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
	return c.patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(labelOwner))
}

// targetOf returns what a request about a work needs of it.
func targetOf(work *workv1.ManifestWork) *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
}

func (c *Controller) patch(ctx context.Context, target *workv1.ManifestWork, patch client.Patch, options ...client.PatchOption) error {
	return wrap("changing", target, client.IgnoreNotFound(c.Client.Patch(ctx, target, patch, options...)))
}

// remove deletes the work that was looked at, not a later one of its name.
func (c *Controller) remove(ctx context.Context, work *workv1.ManifestWork) error {
	err := deletion.Delete(ctx, c.Client, work, nil)
	if apierrors.IsConflict(err) {
		return nil
	}
	return wrap("deleting", work, client.IgnoreNotFound(err))
}

func wrap(doing string, work client.Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s ManifestWork %q: %w", doing, client.ObjectKeyFromObject(work), err)
}
