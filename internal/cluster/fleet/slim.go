// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

const (
	// textMax is how many bytes of a text that a member writes are kept.
	textMax = 1024
	// scoresMax is how many scores of an AddOnPlacementScore are kept.
	scoresMax = 1000
)

// SlimConnection drops from a ClusterConnection what its agent found in the
// cluster, and what the Cluster API serves of it: it is nearly all of the object,
// and few on the hub decide by it. It is a transform of caches.
func SlimConnection(obj any) (any, error) {
	if connection, ok := obj.(*fleetv1alpha1.ClusterConnection); ok {
		slimConnection(connection)
		connection.Cluster = nil
	}
	return obj, nil
}

// SlimMirror is SlimConnection for a cache of who mirrors ManagedClusters: it
// leaves what is mirrored and what is to be done, and drops what is the Cluster's
// own.
func SlimMirror(obj any) (any, error) {
	if connection, ok := obj.(*fleetv1alpha1.ClusterConnection); ok {
		slimConnection(connection)
		connection.Spec.ResourceModels = nil
		if cluster := connection.Cluster; cluster != nil {
			cluster.Annotations = nil
			cluster.ManagedFields = ""
			cluster.SecretRef = nil
			cluster.ImpersonatorSecretRef = nil
		}
	}
	return obj, nil
}

func slimConnection(connection *fleetv1alpha1.ClusterConnection) {
	connection.ManagedFields = nil
	connection.Status.APIEnablements = nil
	connection.Status.NodeSummary = nil
	connection.Status.ResourceSummary = nil
	connection.Status.HubAuthorities = nil
}

// SlimCluster is SlimmedCluster as a transform of caches.
func SlimCluster(obj any) (any, error) {
	if cluster, ok := obj.(*clusterv1.ManagedCluster); ok {
		return SlimmedCluster(cluster), nil
	}
	return obj, nil
}

// SlimmedCluster returns what of a ManagedCluster the hub decides by, and users do who write
// expressions: no managed fields, finalizers, owners and CAs of API servers, no annotation
// that is longer than textMax but that of pinned claims, and messages up to textMax. The
// one that is given is not to be used any more.
func SlimmedCluster(cluster *clusterv1.ManagedCluster) *clusterv1.ManagedCluster {
	slim := &clusterv1.ManagedCluster{
		TypeMeta: cluster.TypeMeta, ObjectMeta: slimMeta(cluster.ObjectMeta), Spec: cluster.Spec, Status: cluster.Status,
	}
	slim.Labels = cluster.Labels
	for key, value := range cluster.Annotations {
		if key != corev1.LastAppliedConfigAnnotation && (len(value) <= textMax || key == fleetv1alpha1.AnnotationPinnedClaims) {
			metav1.SetMetaDataAnnotation(&slim.ObjectMeta, key, value)
		}
	}
	for i := range slim.Spec.ManagedClusterClientConfigs {
		slim.Spec.ManagedClusterClientConfigs[i].CABundle = nil
	}
	for i := range slim.Status.Conditions {
		said := &slim.Status.Conditions[i]
		said.Message = strings.ToValidUTF8(strings.Clone(said.Message[:min(len(said.Message), textMax)]), "")
	}
	return slim
}

// SlimScores returns what of an AddOnPlacementScore Placements choose by: its first
// scoresMax scores, those with a name that is longer than textMax left out. It is a
// transform of caches.
func SlimScores(obj any) (any, error) {
	scores, ok := obj.(*clusterv1alpha1.AddOnPlacementScore)
	if !ok {
		return obj, nil
	}
	slim := &clusterv1alpha1.AddOnPlacementScore{TypeMeta: scores.TypeMeta, ObjectMeta: slimMeta(scores.ObjectMeta)}
	slim.Status.ValidUntil = scores.Status.ValidUntil
	for _, score := range scores.Status.Scores[:min(len(scores.Status.Scores), scoresMax)] {
		if len(score.Name) <= textMax {
			slim.Status.Scores = append(slim.Status.Scores, score)
		}
	}
	return slim, nil
}

// SlimLease returns what of the Lease of a cluster tells when its agent was heard of. It
// is a transform of caches.
func SlimLease(obj any) (any, error) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return obj, nil
	}
	slim := &coordinationv1.Lease{TypeMeta: lease.TypeMeta, ObjectMeta: slimMeta(lease.ObjectMeta)}
	if cluster, labelled := lease.Labels[clusterv1.LabelClusterName]; labelled {
		metav1.SetMetaDataLabel(&slim.ObjectMeta, clusterv1.LabelClusterName, cluster)
	}
	slim.Spec.LeaseDurationSeconds = lease.Spec.LeaseDurationSeconds
	slim.Spec.RenewTime = lease.Spec.RenewTime
	return slim, nil
}

// slimMeta returns what tells which object it is, in which state.
func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
}
