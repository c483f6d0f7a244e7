// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An apply has the name of its object in its path, so that creating can be
// limited to a name, as it cannot be by other requests.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=managed-cluster-lease,verbs=create;patch

// CreateLease makes the lease of a cluster. As another creation it returns an error
// of the kind AlreadyExists for one that an agent has renewed, and leaves it.
func CreateLease(ctx context.Context, c client.Client, lease *coordinationv1.Lease) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(lease)
	if err != nil {
		return fmt.Errorf("encoding the lease of cluster %q: %w", lease.Namespace, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(fieldOwner))
	if apierrors.IsConflict(err) {
		return apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), lease.Name)
	}
	if err != nil {
		return fmt.Errorf("creating the lease of cluster %q: %w", lease.Namespace, err)
	}
	return nil
}
