// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
)

// SelfConflicts says that ManagedClusters tell what is written without end of them, their
// ClusterConnections and their namespaces.
func SelfConflicts(ctrl.Manager) []selfconflict.ReportedKind {
	of := func(_ context.Context, written selfconflict.WrittenObject) ([]types.NamespacedName, error) {
		switch {
		case written.Namespace != "":
			return []types.NamespacedName{{Name: written.Namespace}}, nil
		case written.Resource == "managedclusters", written.Resource == "clusterconnections", written.Resource == "namespaces":
			return []types.NamespacedName{{Name: written.Name}}, nil
		}
		return nil, nil
	}
	return []selfconflict.ReportedKind{selfconflict.ReportOnKind(&clusterv1.ManagedCluster{}, func(c *clusterv1.ManagedCluster) []metav1.Condition { return c.Status.Conditions }, of)}
}
