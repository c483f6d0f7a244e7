// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/projection"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// SetupWithManager adds the controller to the manager.
func (c *ClusterProjectionController) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconcilesMax}).
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(predicate.Funcs{
			UpdateFunc: clusterMatters,
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Watches(&fleetv1alpha1.ClusterConnection{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.Funcs{UpdateFunc: connectionMatters})).
		Complete(conflict.RequeueConflicts(c))
}

// clusterMatters reports whether a change of a ManagedCluster shows in the Cluster.
func clusterMatters(e event.UpdateEvent) bool {
	before, _ := e.ObjectOld.(*clusterv1.ManagedCluster)
	after, _ := e.ObjectNew.(*clusterv1.ManagedCluster)
	return before == nil || after == nil || projection.MirrorsDiffer(before, after)
}

// connectionMatters reports whether a change of a ClusterConnection is one of its
// mirror: not what an agent reports, but for who its cluster is.
func connectionMatters(e event.UpdateEvent) bool {
	before, _ := e.ObjectOld.(*fleetv1alpha1.ClusterConnection)
	after, _ := e.ObjectNew.(*fleetv1alpha1.ClusterConnection)
	return before == nil || after == nil || before.Identity() != after.Identity() ||
		!maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Cluster, after.Cluster)
}
