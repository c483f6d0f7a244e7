// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets,verbs=get

// warnRestored tells the agent of a cluster that is accepted for the first time what a
// restored hub forgot: perhaps also that it had accepted this one before, whose
// agent then has records of works that nobody deleted. The API server is asked for
// it, as the cache may be of before the restore.
func (c *ClusterLifecycleController) warnRestored(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if _, warned := mc.Annotations[fleetv1alpha1.AnnotationRestored]; warned || isDecided(mc) {
		return nil
	}
	set := &clusterv1beta2.ManagedClusterSet{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: clusterv1.GlobalClusterSet}, set); err != nil {
		return wrapObjectError(client.IgnoreNotFound(err), "reading", "ManagedClusterSet", clusterv1.GlobalClusterSet)
	}
	text, published := set.Annotations[fleetv1alpha1.AnnotationRestored]
	if !published {
		return nil
	}
	before := mc.DeepCopy()
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, fleetv1alpha1.AnnotationRestored, text)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return wrapObjectError(c.Client.Patch(ctx, mc, patch, client.FieldOwner(fieldOwner)), "noting the restore of the hub in", "ManagedCluster", mc.Name)
}
