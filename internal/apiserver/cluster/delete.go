// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
)

// Delete implements rest.GracefulDeleter. The Cluster has a deletionTimestamp
// then, and is gone when the hub has removed what belongs to it.
func (s *Storage) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if o == nil {
		o = &metav1.DeleteOptions{}
	}
	for attempt := 1; ; attempt++ {
		deleted, err := s.deleteOnce(ctx, name, validate, o)
		versioned := o.Preconditions != nil && o.Preconditions.ResourceVersion != nil
		if apierrors.IsConflict(err) && attempt < retriesMax && !versioned {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		return deleted, false, nil
	}
}

func (s *Storage) deleteOnce(ctx context.Context, name string, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions) (*v1alpha1.Cluster, error) {
	connection, err := s.getConnection(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	cluster := translate.ClusterFromConnection(connection)
	if err := checkPreconditions(o.Preconditions, cluster); err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, cluster.DeepCopy()); err != nil {
			return nil, err
		}
	}
	if cluster.DeletionTimestamp != nil {
		return cluster, nil
	}
	now := metav1.NewTime(s.strategy.clock.Now()).Rfc3339Copy()
	cluster.DeletionTimestamp = &now
	return s.writer.storeCluster(ctx, connection, cluster, o.DryRun)
}

// DeleteCollection implements rest.CollectionDeleter.
func (s *Storage) DeleteCollection(
	ctx context.Context, validate rest.ValidateObjectFunc, o *metav1.DeleteOptions, which *internalversion.ListOptions,
) (runtime.Object, error) {
	obj, err := s.List(ctx, which)
	if err != nil {
		return nil, err
	}
	list, ok := obj.(*v1alpha1.ClusterList)
	if !ok {
		return nil, apierrors.NewInternalError(errNoCluster(obj))
	}
	deleted := &v1alpha1.ClusterList{ListMeta: list.ListMeta}
	for i := range list.Items {
		gone, _, err := s.Delete(ctx, list.Items[i].Name, validate, o.DeepCopy())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if cluster, ok := gone.(*v1alpha1.Cluster); ok {
			deleted.Items = append(deleted.Items, *cluster)
		}
	}
	return deleted, nil
}
