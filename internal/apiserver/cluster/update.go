// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
)

// retriesMax is how often a write is tried again, on what is stored then, after
// somebody else wrote in between; each time one writer of all gets on. A write of
// a version that is not the stored one is not.
const retriesMax = 100

// Update implements rest.Updater. Patches of all kinds come here, too.
func (s *Storage) Update(
	ctx context.Context, name string, change rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc,
	validateUpdate rest.ValidateObjectUpdateFunc, mayCreate bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	for attempt := 1; ; attempt++ {
		connection, err := s.getConnection(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && mayCreate {
			created, err := s.createByUpdate(ctx, change, validateCreate, o)
			return created, err == nil, err
		}
		if err != nil {
			return nil, false, err
		}
		before := translate.ClusterFromConnection(connection)
		after, err := s.updatedCluster(ctx, change, connection, before)
		if err == nil {
			err = validateAll(ctx, validateUpdate, after, before)
		}
		if err != nil {
			return nil, false, err
		}
		if equality.Semantic.DeepEqual(before, after) {
			return before, false, nil
		}
		stored, err := s.writer.storeCluster(ctx, connection, after, o.DryRun)
		if apierrors.IsConflict(err) && attempt < retriesMax {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		return stored, false, nil
	}
}

// createByUpdate is a create by server-side apply.
func (s *Storage) createByUpdate(
	ctx context.Context, change rest.UpdatedObjectInfo, validate rest.ValidateObjectFunc, o *metav1.UpdateOptions,
) (runtime.Object, error) {
	obj, err := change.UpdatedObject(ctx, s.New())
	if err != nil {
		return nil, err
	}
	return s.Create(ctx, obj, validate, &metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation})
}

// updatedCluster returns what a Cluster becomes. It fails if the user wrote it of another
// version; what a patch says of none is of the one that it is applied to.
func (s *Storage) updatedCluster(
	ctx context.Context, change rest.UpdatedObjectInfo, connection *fleetv1alpha1.ClusterConnection, before *v1alpha1.Cluster,
) (*v1alpha1.Cluster, error) {
	if err := checkPreconditions(change.Preconditions(), before); err != nil {
		return nil, err
	}
	obj, err := change.UpdatedObject(ctx, before.DeepCopy())
	if err != nil {
		return nil, err
	}
	after, ok := obj.(*v1alpha1.Cluster)
	if !ok {
		return nil, apierrors.NewBadRequest(errNoCluster(obj).Error())
	}
	if after.ResourceVersion != "" && after.ResourceVersion != before.ResourceVersion {
		return nil, conflictError(before.Name)
	}
	after.ResourceVersion = before.ResourceVersion
	after.TypeMeta = before.TypeMeta
	translate.LocateCluster(after, connection)
	return after, rest.BeforeUpdate(s.strategy, ctx, after, before)
}

func validateAll(ctx context.Context, validate rest.ValidateObjectUpdateFunc, after, before *v1alpha1.Cluster) error {
	if validate == nil {
		return nil
	}
	return validate(ctx, after.DeepCopy(), before.DeepCopy())
}

func checkPreconditions(p *metav1.Preconditions, cluster *v1alpha1.Cluster) error {
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != cluster.UID:
		return apierrors.NewConflict(clusterResource(), cluster.Name, fmt.Errorf("the UID in the precondition (%s) is not that of the Cluster (%s)", *p.UID, cluster.UID))
	case p.ResourceVersion != nil && *p.ResourceVersion != cluster.ResourceVersion:
		return apierrors.NewConflict(clusterResource(), cluster.Name,
			fmt.Errorf("the resource version in the precondition (%s) is not that of the Cluster (%s)", *p.ResourceVersion, cluster.ResourceVersion))
	default:
		return nil
	}
}
