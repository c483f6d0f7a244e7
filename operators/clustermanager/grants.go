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
func (c *Controller) removeGrants(ctx context.Context, p *pass) (string, error) {
	if c.options.KeepCRDs {
		return "", nil // the clusters stay, and work again with the next hub
	}
	works, err := c.available(ctx, p, "registration-controller")
	if err != nil {
		return "", err
	}
	left, example := 0, ""
	for _, kind := range []string{"RoleBinding", "ClusterRoleBinding", "ClusterRole"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := p.site.reader.List(ctx, list, client.HasLabels{clusterv1.LabelClusterName}, client.Limit(grantsPerPassMax)); err != nil {
			return "", fmt.Errorf("listing what clusters were granted, kind %s: %w", kind, err)
		}
		for i := range list.Items {
			item := &list.Items[i]
			if !strings.HasPrefix(item.Name, grantPrefix) {
				continue
			}
			if left++; example == "" {
				example = fmt.Sprintf("%s %s", kind, strings.TrimPrefix(client.ObjectKeyFromObject(item).String(), "/"))
			}
			if works && !c.pastDeadline(p.cm) {
				continue
			}
			item.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
			if err := p.site.removeGrant(ctx, item); err != nil {
				return "", err
			}
		}
	}
	if left == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d or more roles and bindings of clusters are being removed, such as the %s", left, example), nil
}

// removeGrant deletes an object without the finalizer of the hub.
func (s *site) removeGrant(ctx context.Context, item *metav1.PartialObjectMetadata) error {
	key := client.ObjectKeyFromObject(item)
	before := item.DeepCopy()
	if controllerutil.RemoveFinalizer(item, clusterv1.FinalizerManifestWorkCleanup) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := s.client.Patch(ctx, item, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizer of %s %q: %w", item.Kind, key, err)
		}
	}
	if !item.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := s.client.Delete(ctx, item); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %q: %w", item.Kind, key, err)
	}
	return nil
}
