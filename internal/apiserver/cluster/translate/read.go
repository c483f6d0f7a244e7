// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/grades"
	"github.com/capstan-io/capstan/internal/cluster/karmadauid"
)

// ClusterFromConnection returns the Cluster that a ClusterConnection shows as, or nil if it is
// the connection of no ManagedCluster. It shares no memory that either side
// changes.
func ClusterFromConnection(connection *fleetv1alpha1.ClusterConnection) *v1alpha1.Cluster {
	if connection.Cluster == nil {
		return nil
	}
	cluster := &v1alpha1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: clusterObjectMeta(connection),
		Spec:       clusterSpec(connection),
		Status:     clusterStatus(connection),
	}
	LocateCluster(cluster, connection)
	return cluster
}

// LocateCluster sets where a Cluster is to what its agent reports, unless it says so
// itself. The address of a Push cluster is never one that an agent reports, because
// the hub sends credentials there.
func LocateCluster(cluster *v1alpha1.Cluster, connection *fleetv1alpha1.ClusterConnection) {
	is := &cluster.Spec
	reported := &connection.Status
	is.Provider, is.Region = cmp.Or(is.Provider, reported.Provider), cmp.Or(is.Region, reported.Region)
	if len(is.Zones) == 0 && is.Zone == "" {
		is.Zones = slices.Clone(reported.Zones)
	}
	if is.SyncMode != v1alpha1.Push {
		is.APIEndpoint = cmp.Or(is.APIEndpoint, connection.Cluster.APIEndpoint)
	}
}

func clusterObjectMeta(connection *fleetv1alpha1.ClusterConnection) metav1.ObjectMeta {
	cluster := connection.Cluster
	o := metav1.ObjectMeta{
		Name:              connection.Name,
		UID:               karmadauid.ClusterUID(cluster.UID),
		ResourceVersion:   connection.ResourceVersion,
		Generation:        cluster.Generation,
		CreationTimestamp: cluster.CreationTimestamp,
		DeletionTimestamp: cluster.DeletionTimestamp.DeepCopy(),
		Labels:            maps.Clone(connection.Labels),
		Annotations:       maps.Clone(cluster.Annotations),
		Finalizers:        []string{v1alpha1.Finalizer},
		ManagedFields:     managedFields(cluster.ManagedFields),
	}
	if IsForcedDeletion(connection) {
		o.Finalizers = nil
	}
	if o.DeletionTimestamp != nil {
		o.DeletionGracePeriodSeconds = new(int64)
	}
	return o
}

// IsForcedDeletion reports whether the deletion of the Cluster does not wait for its agent.
func IsForcedDeletion(connection *fleetv1alpha1.ClusterConnection) bool {
	return connection.Cluster != nil && connection.Cluster.Intent != nil && connection.Cluster.Intent.Force
}

// managedFields decodes what Record encoded. Fields that nobody can decode belong
// to nobody: the next write records its own.
func managedFields(encoded string) []metav1.ManagedFieldsEntry {
	if encoded == "" {
		return nil
	}
	var entries []metav1.ManagedFieldsEntry
	if err := json.Unmarshal([]byte(encoded), &entries); err != nil {
		return nil
	}
	return entries
}

func clusterSpec(connection *fleetv1alpha1.ClusterConnection) v1alpha1.ClusterSpec {
	from := &connection.Spec
	return v1alpha1.ClusterSpec{
		ID:                          connection.Cluster.ID,
		SyncMode:                    v1alpha1.ClusterSyncMode(from.SyncMode),
		APIEndpoint:                 from.APIEndpoint,
		SecretRef:                   secretRef(connection),
		ImpersonatorSecretRef:       impersonatorSecretRef(connection),
		InsecureSkipTLSVerification: from.InsecureSkipTLSVerification,
		ProxyURL:                    from.ProxyURL,
		ProxyHeader:                 maps.Clone(from.ProxyHeader),
		Provider:                    from.Provider,
		Region:                      from.Region,
		Zones:                       slices.Clone(from.Zones),
		Taints:                      copyTaints(connection.Cluster.Taints),
		ResourceModels:              resourceModels(grades.ModelsOf(from)),
	}
}

// secretRef returns the reference as it was written; for a Push cluster that was
// not joined by way of a Cluster it is the Secret that the push agent uses.
func secretRef(connection *fleetv1alpha1.ClusterConnection) *v1alpha1.LocalSecretReference {
	if written := connection.Cluster.SecretRef; written != nil {
		return &v1alpha1.LocalSecretReference{Namespace: written.Namespace, Name: written.Name}
	}
	if connection.Spec.SyncMode != fleetv1alpha1.SyncModePush && connection.Spec.SecretRef == nil {
		return nil
	}
	return &v1alpha1.LocalSecretReference{Namespace: connection.Name, Name: LocalSecret(connection)}
}

// LocalSecret returns the name of the Secret in the namespace of the cluster that
// its connection sends.
func LocalSecret(connection *fleetv1alpha1.ClusterConnection) string {
	if connection.Spec.SecretRef == nil {
		return fleetv1alpha1.DefaultSecretName
	}
	return connection.Spec.SecretRef.Name
}

func impersonatorSecretRef(connection *fleetv1alpha1.ClusterConnection) *v1alpha1.LocalSecretReference {
	if written := connection.Cluster.ImpersonatorSecretRef; written != nil {
		return &v1alpha1.LocalSecretReference{Namespace: written.Namespace, Name: written.Name}
	}
	if connection.Spec.ImpersonatorSecretRef == nil {
		return nil
	}
	return &v1alpha1.LocalSecretReference{Namespace: connection.Name, Name: connection.Spec.ImpersonatorSecretRef.Name}
}

func copyTaints(from []corev1.Taint) []corev1.Taint {
	if from == nil {
		return nil
	}
	to := make([]corev1.Taint, len(from))
	for i := range from {
		from[i].DeepCopyInto(&to[i])
	}
	return to
}
