// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// cleanUp deletes the works of a replica set that is being deleted and, with
// policy Foreground, keeps it until they are gone. The watch tells what becomes
// of them.
func (c *Controller) cleanUp(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) error {
	if !controllerutil.ContainsFinalizer(set, workv1alpha1.FinalizerManifestWorkCleanup) {
		return nil
	}
	foreground := set.Spec.CascadeDeletionPolicy == workv1alpha1.CascadeDeletionPolicyForeground
	// The cache may not have a work yet that was created a moment ago.
	for _, list := range []func(context.Context, types.NamespacedName) ([]client.Object, error){c.cachedWorks, c.storedWorks} {
		works, err := list(ctx, client.ObjectKeyFromObject(set))
		if err != nil {
			return err
		}
		var tasks []func() error
		for _, work := range works {
			if work.GetDeletionTimestamp().IsZero() {
				tasks = append(tasks, func() error { return c.remove(ctx, work) })
			}
		}
		if len(tasks) > 0 || foreground && len(works) > 0 {
			return inParallel(tasks)
		}
	}
	before := set.DeepCopy()
	controllerutil.RemoveFinalizer(set, workv1alpha1.FinalizerManifestWorkCleanup)
	err := c.Client.Patch(ctx, set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of ManifestWorkReplicaSet %q: %w", client.ObjectKeyFromObject(set), err)
	}
	return nil
}

func (c *Controller) cachedWorks(ctx context.Context, set types.NamespacedName) ([]client.Object, error) {
	byCluster, err := c.works(ctx, set)
	var all []client.Object
	for _, works := range byCluster {
		for _, work := range works {
			all = append(all, work)
		}
	}
	return all, err
}

func (c *Controller) storedWorks(ctx context.Context, set types.NamespacedName) ([]client.Object, error) {
	if len(validation.IsValidLabelValue(ownerOf(set))) > 0 {
		return nil, nil // no work can have the label
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWorkList"))
	if err := c.Live.List(ctx, list, client.MatchingLabels{workv1.LabelManifestWorkReplicaSet: ownerOf(set)}); err != nil {
		return nil, fmt.Errorf("listing the ManifestWorks of ManifestWorkReplicaSet %q: %w", set, err)
	}
	var all []client.Object
	for i := range list.Items {
		if !isOurs(set, &list.Items[i]) {
			continue
		}
		list.Items[i].SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWork"))
		all = append(all, &list.Items[i])
	}
	return all, nil
}
