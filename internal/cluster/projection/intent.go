// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// IntentCompleted reports whether an intent was completed before: what others changed
// since must not be undone.
func IntentCompleted(mc *clusterv1.ManagedCluster, intent *fleetv1alpha1.ClusterIntent) bool {
	return intent.ID != "" && mc.Annotations[fleetv1alpha1.AnnotationCompletedIntent] == intent.ID
}

// CompleteIntent changes a ManagedCluster in memory as an intent says, unless that was
// completed before, and notes that it was. It changes nothing that the intent
// does not name. Whether to delete the ManagedCluster is left to the caller.
func CompleteIntent(mc *clusterv1.ManagedCluster, intent *fleetv1alpha1.ClusterIntent) {
	if intent.Force && (intent.Delete || !mc.DeletionTimestamp.IsZero()) {
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, fleetv1alpha1.AnnotationForceDetach, "true")
	}
	if !intentChanges(intent) || IntentCompleted(mc, intent) {
		return
	}
	for _, key := range intent.RemovedLabels {
		delete(mc.Labels, key)
	}
	for key, value := range intent.Labels {
		metav1.SetMetaDataLabel(&mc.ObjectMeta, key, value)
	}
	mc.Spec.Taints = setTaints(mc.Spec.Taints, intent.Taints, intent.RemovedTaints)
	if intent.Accept {
		mc.Spec.HubAcceptsClient = true
	}
	if intent.ID != "" {
		metav1.SetMetaDataAnnotation(&mc.ObjectMeta, fleetv1alpha1.AnnotationCompletedIntent, intent.ID)
	}
}

// ClearIntent takes the intent from a ClusterConnection whose ManagedCluster it was
// completed in, and notes that it mirrors no earlier state of that.
func ClearIntent(connection *fleetv1alpha1.ClusterConnection, mc *clusterv1.ManagedCluster) {
	connection.Cluster.Intent = nil
	connection.Cluster.ResourceVersion = mc.ResourceVersion
}

// intentChanges reports whether an intent changes what others may change as well. A
// deletion, forced or not, cannot be undone.
func intentChanges(intent *fleetv1alpha1.ClusterIntent) bool {
	return intent.Accept || len(intent.Labels) > 0 || len(intent.RemovedLabels) > 0 ||
		len(intent.Taints) > 0 || len(intent.RemovedTaints) > 0
}
