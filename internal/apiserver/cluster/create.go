// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// Create implements rest.StandardStorage: it declares a ManagedCluster and how to connect
// to it, and accepts it. A ManagedCluster that nobody has accepted yet, such as
// one whose agent registered it, becomes the Cluster that is created; so a create
// that was interrupted can be repeated.
func (s *Storage) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	cluster, ok := obj.(*v1alpha1.Cluster)
	if !ok {
		return nil, apierrors.NewBadRequest(errNoCluster(obj).Error())
	}
	if cluster.Name == "" && cluster.GenerateName != "" {
		cluster.Name = s.strategy.GenerateName(cluster.GenerateName)
	}
	rest.FillObjectMetaSystemFields(cluster)
	if err := rest.BeforeCreate(s.strategy, ctx, cluster); err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, cluster.DeepCopy()); err != nil {
			return nil, err
		}
	}
	if len(o.DryRun) == 0 { // nothing is left half made by what the hub does not take
		if _, err := s.createWithRetries(ctx, cluster, []string{metav1.DryRunAll}); err != nil {
			return nil, err
		}
	}
	return s.createWithRetries(ctx, cluster, o.DryRun)
}

func (s *Storage) createWithRetries(ctx context.Context, cluster *v1alpha1.Cluster, dryRun []string) (runtime.Object, error) {
	for attempt := 1; ; attempt++ {
		created, err := s.writer.createCluster(ctx, cluster.DeepCopy(), dryRun)
		if apierrors.IsConflict(err) && attempt < retriesMax {
			continue
		}
		if err != nil {
			return nil, err
		}
		return created, nil
	}
}
