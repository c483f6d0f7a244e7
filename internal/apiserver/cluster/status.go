// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/validation"
)

// StatusStorage serves clusters/status: clients may set conditions of types that
// the hub does not maintain. The rest is the agents', and stays as it is: who writes it
// is warned.
type StatusStorage struct{ clusters *Storage }

// New implements rest.Storage.
func (s *StatusStorage) New() runtime.Object { return s.clusters.New() }

// Destroy implements rest.Storage.
func (s *StatusStorage) Destroy() {}

// Get implements rest.Getter.
func (s *StatusStorage) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return s.clusters.Get(ctx, name, o)
}

// ConvertToTable implements rest.TableConvertor.
func (s *StatusStorage) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return s.clusters.ConvertToTable(ctx, object, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s *StatusStorage) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("spec")
}

// Update implements rest.Updater.
func (s *StatusStorage) Update(
	ctx context.Context, name string, change rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	for attempt := 1; ; attempt++ {
		connection, err := s.clusters.getConnection(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, false, err
		}
		before := translate.ClusterFromConnection(connection)
		conditions, err := s.updatedConditions(ctx, change, validate, before)
		if err != nil {
			return nil, false, err
		}
		all := translate.MergeConditions(connection, conditions)
		if equality.Semantic.DeepEqual(all, connection.Status.Conditions) {
			return before, false, nil
		}
		connection.Status.Conditions = all
		stored, err := s.clusters.writer.hub.connections.UpdateStatus(ctx, connection, metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: fieldManager})
		if apierrors.IsConflict(err) && attempt < retriesMax {
			continue
		}
		if err != nil {
			return nil, false, translateHubError(err, name)
		}
		return translate.ClusterFromConnection(stored), false, nil
	}
}

// updatedConditions returns the conditions that a write of the status has. It fails if the
// user wrote it of another version.
func (s *StatusStorage) updatedConditions(
	ctx context.Context, change rest.UpdatedObjectInfo, validate rest.ValidateObjectUpdateFunc, before *v1alpha1.Cluster,
) ([]metav1.Condition, error) {
	if err := checkPreconditions(change.Preconditions(), before); err != nil {
		return nil, err
	}
	obj, err := change.UpdatedObject(ctx, before.DeepCopy())
	if err != nil {
		return nil, err
	}
	written, ok := obj.(*v1alpha1.Cluster)
	if !ok {
		return nil, apierrors.NewBadRequest(errNoCluster(obj).Error())
	}
	if written.ResourceVersion != "" && written.ResourceVersion != before.ResourceVersion {
		return nil, conflictError(before.Name)
	}
	for _, ignored := range translate.IgnoredStatusPaths(before, written) {
		warning.AddWarning(ctx, "", ignored+" is not written: the hub says it by what the agent of the cluster reports; write a condition of a type of your own")
	}
	after := before.DeepCopy()
	after.Status.Conditions = written.Status.Conditions
	if problems := validation.ValidateConditions(after.Status.Conditions); len(problems) > 0 {
		return nil, apierrors.NewInvalid(clusterKind(), before.Name, problems)
	}
	return after.Status.Conditions, validateAll(ctx, validate, after, before)
}
