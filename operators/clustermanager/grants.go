// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
)

const (
	// grantPrefix begins the names of the roles and bindings that the hub makes
	// for its clusters.
	grantPrefix = "open-cluster-management:managedcluster:"
	// grantsPerPassMax limits how many of them are removed in a pass.
	grantsPerPassMax = 500
)

// removeGrants waits until the hub has taken back what it gave to clusters that
// are gone: its bindings have a finalizer, which nobody would take off once the
// hub is removed, and then their namespaces could never be deleted. After the
// deadline, or without a hub that works, the operator does it.
func (r *hubRemoval) removeGrants(ctx context.Context, p *clusterManagerPass) error {
	if r.Options.KeepCRDs {
		return nil // the clusters stay, and work again with the next hub
	}
	works, err := r.isPartAvailable(ctx, p, "registration-controller")
	if err != nil {
		return err
	}
	left := 0
	example := ""
	for _, kind := range []string{"RoleBinding", "ClusterRoleBinding", "ClusterRole"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := p.target.Live.List(ctx, list, client.HasLabels{clusterv1.LabelClusterName}, client.Limit(grantsPerPassMax)); err != nil {
			return fmt.Errorf("listing the grants of clusters, kind %s: %w", kind, err)
		}
		for i := range list.Items {
			item := &list.Items[i]
			if !strings.HasPrefix(item.Name, grantPrefix) {
				continue
			}
			if left++; example == "" {
				example = fmt.Sprintf("%s %s", kind, strings.TrimPrefix(client.ObjectKeyFromObject(item).String(), "/"))
			}
			if works && !r.pastDeadline(p.Object) {
				continue
			}
			item.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
			if err := removeGrant(ctx, p.target, item); err != nil {
				return err
			}
		}
	}
	if left == 0 {
		return nil
	}
	return remainingError(fmt.Sprintf("%d or more roles and bindings of clusters are being removed, for example %s", left, example))
}

// removeGrant deletes an object without the finalizer of the hub.
func removeGrant(ctx context.Context, hub *install.Target, item *metav1.PartialObjectMetadata) error {
	key := client.ObjectKeyFromObject(item)
	before := item.DeepCopy()
	if controllerutil.RemoveFinalizer(item, clusterv1.FinalizerManifestWorkCleanup) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := hub.Client.Patch(ctx, item, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizer of %s %q: %w", item.Kind, key, err)
		}
	}
	if !item.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := hub.Client.Delete(ctx, item); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %q: %w", item.Kind, key, err)
	}
	return nil
}
