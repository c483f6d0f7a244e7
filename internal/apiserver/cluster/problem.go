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

// shown is what Clusters are made of.
func shown() stored.View {
	return stored.View{
		Shown: stored.Kind{Group: v1alpha1.GroupName, Resource: "clusters", Kind: "Cluster"},
		Stored: []stored.Kind{
			{Group: fleetv1alpha1.GroupName, Resource: "clusterconnections", Kind: "ClusterConnection"},
			{Group: clusterv1.GroupName, Resource: "managedclusters", Kind: "ManagedCluster"},
		},
	}
}

func resource() schema.GroupResource { return shown().Resource() }

func kind() schema.GroupKind { return v1alpha1.GroupVersion.WithKind("Cluster").GroupKind() }

func notFound(name string) error { return shown().NotFound(name) }

func conflict(name string) error { return shown().Conflict(name) }

func forbidden(name string, err error) error { return apierrors.NewForbidden(resource(), name, err) }

// problem returns what the hub says about a ClusterConnection or a ManagedCluster
// as what it means for the Cluster.
func problem(err error, name string) error { return shown().Problem(err, name) }

func errNoCluster(obj any) error { return fmt.Errorf("expected a Cluster, got %T", obj) }
