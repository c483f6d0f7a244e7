// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/secretcopy"
	"github.com/capstan-io/capstan/internal/kube/access"
)

var (
	_ rest.StandardStorage      = &Storage{}
	_ rest.Scoper               = &Storage{}
	_ rest.SingularNameProvider = &Storage{}
	_ rest.CategoriesProvider   = &Storage{}
	_ rest.ResetFieldsStrategy  = &Storage{}
	_ rest.Patcher              = &StatusStorage{}
	_ rest.ResetFieldsStrategy  = &StatusStorage{}
)

// AddClustersToScheme makes Clusters known as what is served and as what requests are
// decoded into: both are the same type.
func AddClustersToScheme(scheme *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: v1alpha1.GroupName, Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(internal, &v1alpha1.Cluster{}, &v1alpha1.ClusterList{})
	return v1alpha1.AddToScheme(scheme)
}

// Storage serves clusters.
type Storage struct {
	clusterReader
	clusterPrinter
	writer   *clusterWriter
	strategy clusterStrategy
}

// StorageOptions is what Storage needs.
type StorageOptions struct {
	// Hub is the API server whose ClusterConnections are served.
	Hub *clientrest.Config
	// Scheme knows Cluster, by AddClustersToScheme.
	Scheme *runtime.Scheme
	Clock  clock.Clock
}

// NewStorage returns the storage of clusters and of clusters/status.
func NewStorage(o StorageOptions) (*Storage, *StatusStorage, error) {
	h, err := newHubStore(o.Hub)
	if err != nil {
		return nil, nil, err
	}
	core, err := kubernetes.NewForConfig(o.Hub)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the client of the hub: %w", err)
	}
	s := &Storage{
		clusterReader:  clusterReader{connections: h.connections},
		clusterPrinter: clusterPrinter{clock: o.Clock},
		strategy:       newClusterStrategy(o.Scheme, o.Clock),
		writer: &clusterWriter{
			hub:     h,
			secrets: secretcopy.SecretCopier{Core: core, View: clusterView(), FieldManager: fieldManager},
			rights:  requesterRights{reviewer: access.NewAccessReviewer(core.AuthorizationV1().SubjectAccessReviews())},
			newID:   func() string { return string(uuid.NewUUID()) },
			clock:   o.Clock,
		},
	}
	s.writer.loop = secretcopy.NewCopyLoop(s.writer, o.Clock)
	return s, &StatusStorage{clusters: s}, nil
}

// CopyAwaitedSecrets copies Secrets that Clusters refer to and that do not exist
// yet, as soon as they do, until ctx ends.
func (s *Storage) CopyAwaitedSecrets(ctx context.Context) { s.writer.loop.RunCopyLoop(ctx) }

// New implements rest.Storage.
func (s *Storage) New() runtime.Object { return &v1alpha1.Cluster{} }

// NewList implements rest.Lister.
func (s *Storage) NewList() runtime.Object { return &v1alpha1.ClusterList{} }

// Destroy implements rest.Storage.
func (s *Storage) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (s *Storage) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider.
func (s *Storage) GetSingularName() string { return "cluster" }

// Categories implements rest.CategoriesProvider.
func (s *Storage) Categories() []string { return []string{"karmada-io"} }

// GetResetFields implements rest.ResetFieldsStrategy: status is not written here.
func (s *Storage) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resetFields("status")
}

func resetFields(field string) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(v1alpha1.GroupVersion.String()): fieldpath.NewSet(fieldpath.MakePathOrDie(field)),
	}
}
