// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/deliver"
	"github.com/capstan-io/capstan/internal/override"
)

// errNoNamespace says that a cluster cannot be sent anything yet.
var errNoNamespace = errors.New("the cluster has no namespace on the hub: accept the cluster first (capstan accept)")

// writesAtOnce is how many works of one binding are written at a time.
const writesAtOnce = 16

// render returns the works that a binding is to have.
func (c *Controller) render(ctx context.Context, b binding, object *unstructured.Unstructured) (map[string]*workv1.ManifestWork, map[string]error, error) {
	wide, own, err := c.overrides(ctx, object.GetNamespace())
	if err != nil {
		return nil, nil, err
	}
	policies, mistake := override.Select(object, wide.Items, own.Items)
	works, problems, err := deliver.Render(deliver.Source{
		Binding: b, Object: object, Fleet: c.Fleet.Snapshot(), Chain: c.Chain, Overrides: policies, Mistake: mistake,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("making the works of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	return works, problems, nil
}

// overrides returns the policies that may change objects of the namespace.
func (c *Controller) overrides(
	ctx context.Context, namespace string,
) (*policyv1alpha1.ClusterOverridePolicyList, *policyv1alpha1.OverridePolicyList, error) {
	wide, own := &policyv1alpha1.ClusterOverridePolicyList{}, &policyv1alpha1.OverridePolicyList{}
	if err := c.Client.List(ctx, wide, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the ClusterOverridePolicies: %w", err)
	}
	if namespace == "" {
		return wide, own, nil
	}
	if err := c.Client.List(ctx, own, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the OverridePolicies of namespace %q: %w", namespace, err)
	}
	return wide, own, nil
}

// deliver makes the changes, several at a time. An object that moves goes to its
// new clusters before it leaves the others. It returns what went wrong, by cluster.
func (c *Controller) deliver(ctx context.Context, changes deliver.Changes) map[string]error {
	var writes, removals []task
	for _, work := range changes.New {
		writes = append(writes, task{work.Namespace, func() error { return c.create(ctx, work) }})
	}
	for _, change := range changes.Changed {
		writes = append(writes, task{change.Present.Namespace, func() error { return c.change(ctx, change) }})
	}
	for i := range changes.Gone {
		work := &changes.Gone[i]
		removals = append(removals, task{work.Namespace, func() error { return c.remove(ctx, work) }})
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

// passing returns those errors of which nobody is told: they pass when the cache
// has caught up. It takes them out of those by cluster.
func passing(failed map[string]error) error {
	var all []error
	for cluster, err := range failed {
		if apierrors.IsConflict(err) {
			all = append(all, err)
			delete(failed, cluster)
		}
	}
	return errors.Join(all...)
}

// create creates a work. One of the name that is there already was made just
// before, and the cache shows it soon, or is in the way.
func (c *Controller) create(ctx context.Context, work *workv1.ManifestWork) error {
	key := client.ObjectKeyFromObject(work)
	if !c.Created.Begin(key) {
		return nil
	}
	err := c.Client.Create(ctx, work)
	if err == nil {
		return nil
	}
	c.Created.Forget(key)
	if apierrors.IsAlreadyExists(err) {
		err = apierrors.NewConflict(workv1.GroupVersion.WithResource("manifestworks").GroupResource(), work.Name, err)
	}
	if apierrors.IsNotFound(err) {
		err = errNoNamespace
	}
	return fmt.Errorf("creating ManifestWork %q: %w", key, err)
}

func (c *Controller) change(ctx context.Context, change deliver.Change) error {
	body, err := change.Patch()
	if err != nil {
		return err
	}
	err = c.Client.Patch(ctx, change.Present.DeepCopy(), client.RawPatch(types.MergePatchType, body))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing ManifestWork %q: %w", client.ObjectKeyFromObject(change.Present), err)
	}
	return nil
}

func (c *Controller) remove(ctx context.Context, work *workv1.ManifestWork) error {
	if !work.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := c.Client.Delete(ctx, work.DeepCopy(), client.Preconditions{UID: &work.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	return nil
}
