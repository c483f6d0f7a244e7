// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/stored"
)

// clusterView is what Clusters are made of.
func clusterView() stored.ProjectedView {
	return stored.ProjectedView{
		Shown: stored.ResourceKind{Group: v1alpha1.GroupName, Resource: "clusters", Kind: "Cluster"},
		Stored: []stored.ResourceKind{
			{Group: fleetv1alpha1.GroupName, Resource: "clusterconnections", Kind: "ClusterConnection"},
			{Group: clusterv1.GroupName, Resource: "managedclusters", Kind: "ManagedCluster"},
		},
	}
}

func clusterResource() schema.GroupResource { return clusterView().GroupResource() }

func clusterKind() schema.GroupKind { return v1alpha1.GroupVersion.WithKind("Cluster").GroupKind() }

func notFoundError(name string) error { return clusterView().NotFoundError(name) }

func conflictError(name string) error { return clusterView().ConflictError(name) }

func forbiddenError(name string, err error) error {
	return apierrors.NewForbidden(clusterResource(), name, err)
}

// translateHubError returns what the hub says about a ClusterConnection or a ManagedCluster
// as what it means for the Cluster.
func translateHubError(err error, name string) error { return clusterView().TranslateError(err, name) }

func errNoCluster(obj any) error { return fmt.Errorf("expected a Cluster, got %T", obj) }
