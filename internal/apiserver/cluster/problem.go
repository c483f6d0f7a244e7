// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// errModified is what Kubernetes says about a lost race.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

func resource() schema.GroupResource {
	return v1alpha1.GroupVersion.WithResource("clusters").GroupResource()
}

func kind() schema.GroupKind { return v1alpha1.GroupVersion.WithKind("Cluster").GroupKind() }

func notFound(name string) error { return apierrors.NewNotFound(resource(), name) }

func conflict(name string) error { return apierrors.NewConflict(resource(), name, errModified) }

func forbidden(name string, err error) error { return apierrors.NewForbidden(resource(), name, err) }

// problem returns what the hub says about a ClusterConnection or a ManagedCluster
// as what it means for the Cluster. An error that is not the hub's is that the hub
// does not respond.
func problem(err error, name string) error {
	var status apierrors.APIStatus
	switch {
	case !errors.As(err, &status):
		return apierrors.NewServiceUnavailable("the hub's API server does not respond: " + err.Error())
	case apierrors.IsNotFound(err):
		return notFound(name)
	case apierrors.IsConflict(err):
		return conflict(name)
	}
	is := status.Status()
	return &apierrors.StatusError{ErrStatus: *describe(&is)}
}

// describe names Clusters where the hub names what they are stored in.
func describe(status *metav1.Status) *metav1.Status {
	status = status.DeepCopy()
	names := strings.NewReplacer(
		"ClusterConnection."+fleetv1alpha1.GroupName, "Cluster."+v1alpha1.GroupName,
		"clusterconnections."+fleetv1alpha1.GroupName, "clusters."+v1alpha1.GroupName,
		"ManagedCluster."+clusterv1.GroupName, "Cluster."+v1alpha1.GroupName,
		"managedclusters."+clusterv1.GroupName, "clusters."+v1alpha1.GroupName,
	)
	status.Message = names.Replace(status.Message)
	if d := status.Details; d != nil && (d.Group == fleetv1alpha1.GroupName || d.Group == clusterv1.GroupName) {
		kinds := map[string]string{
			"clusterconnections": "clusters", "managedclusters": "clusters", "ClusterConnection": "Cluster", "ManagedCluster": "Cluster",
		}
		if shown, ok := kinds[d.Kind]; ok {
			d.Group, d.Kind = v1alpha1.GroupName, shown
		}
	}
	return status
}

func errNoCluster(obj any) error { return fmt.Errorf("expected a Cluster, got %T", obj) }
