// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// storedAgain is how soon to look again for works that the hub has and the cache does not show yet.
const storedAgain = time.Second

// cleanUp deletes the works of a replica set that is being deleted, those whose turn it is, and, with
// policy Foreground, keeps it until they are gone. The watch tells what becomes of them. It returns
// how soon to look again although nothing happens; 0 is never.
func (c *WorkReplicaSetController) cleanUp(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) (again time.Duration, err error) {
	if !controllerutil.ContainsFinalizer(set, workv1alpha1.FinalizerManifestWorkCleanup) {
		return 0, nil
	}
	byCluster, err := c.worksByCluster(ctx, client.ObjectKeyFromObject(set))
	if err != nil {
		return 0, err
	}
	if alive := (planFacts{Works: byCluster}).surplusWorks(nil); len(alive) > 0 {
		return c.deleteRemaining(ctx, set, alive)
	}
	foreground := set.Spec.CascadeDeletionPolicy == workv1alpha1.CascadeDeletionPolicyForeground
	if foreground && len(byCluster) > 0 {
		return 0, nil
	}
	// The cache may not have a work yet that was created a moment ago.
	stored, alive, err := c.hasStoredWorks(ctx, client.ObjectKeyFromObject(set))
	if err != nil {
		return 0, err
	}
	if alive || foreground && stored {
		return storedAgain, nil
	}
	before := set.DeepCopy()
	controllerutil.RemoveFinalizer(set, workv1alpha1.FinalizerManifestWorkCleanup)
	err = c.Client.Patch(ctx, set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("removing the finalizer of ManifestWorkReplicaSet %q: %w", client.ObjectKeyFromObject(set), err)
	}
	return 0, nil
}

// deleteRemaining deletes what is left of the works of a replica set that is being deleted, and tells what has
// to wait for its turn.
func (c *WorkReplicaSetController) deleteRemaining(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet, works []*workv1.ManifestWork) (again time.Duration, err error) {
	now, held, err := c.limitPlan(ctx, set, rolloutPlan{Gone: works}, 0)
	if err != nil {
		return 0, err
	}
	err = c.applyPlan(ctx, set, now)
	if held.AnyHeld() {
		err = errors.Join(err, c.writeReplicaSetStatus(ctx, set, replicaSetStatus{Conditions: []metav1.Condition{heldCondition(held)}}))
	}
	return held.Again, err
}

// hasStoredWorks reports whether the hub has works of a replica set, and whether some of them are not being
// deleted.
func (c *WorkReplicaSetController) hasStoredWorks(ctx context.Context, set types.NamespacedName) (some, alive bool, err error) {
	if len(validation.IsValidLabelValue(ownerLabel(set))) > 0 {
		return false, false, nil // no work can have the label
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWorkList"))
	if err := c.Live.List(ctx, list, client.MatchingLabels{workv1.LabelManifestWorkReplicaSet: ownerLabel(set)}); err != nil {
		return false, false, fmt.Errorf("listing the ManifestWorks of ManifestWorkReplicaSet %q: %w", set, err)
	}
	for i := range list.Items {
		if isOurs(set, &list.Items[i]) {
			some, alive = true, alive || list.Items[i].DeletionTimestamp.IsZero()
		}
	}
	return some, alive, nil
}
