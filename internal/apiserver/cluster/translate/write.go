// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// NormalizeZones brings what may be written in several ways into one: zone is moved
// to zones.
func NormalizeZones(cluster *v1alpha1.Cluster) {
	if cluster.Spec.Zone != "" && len(cluster.Spec.Zones) == 0 {
		cluster.Spec.Zones = []string{cluster.Spec.Zone}
		cluster.Spec.Zone = ""
	}
}

// SpecChanged reports whether two Clusters differ in what generation counts.
func SpecChanged(before, after *v1alpha1.Cluster) bool {
	return !equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// StoreCluster writes the metadata and spec of a Cluster to its ClusterConnection, in
// memory. What the ManagedCluster has to become is added to the intent, whose id
// becomes the given one if that is so. The ClusterConnection shows the Cluster as
// it is written from then on.
func StoreCluster(connection *fleetv1alpha1.ClusterConnection, cluster *v1alpha1.Cluster, intentID string) error {
	before := ClusterFromConnection(connection)
	storeSpec(&connection.Spec, cluster)
	storePlace(connection, &before.Spec, &cluster.Spec)
	to := connection.Cluster
	change := IntentDifference(before, cluster)
	if !equality.Semantic.DeepEqual(change, fleetv1alpha1.ClusterIntent{}) {
		to.Intent = MergeIntent(to.Intent, change)
		to.Intent.ID = intentID
	}
	connection.Labels = maps.Clone(cluster.Labels)
	to.Annotations = maps.Clone(cluster.Annotations)
	to.Generation = cluster.Generation
	to.DeletionTimestamp = cluster.DeletionTimestamp.DeepCopy()
	to.Taints = copyTaints(cluster.Spec.Taints)
	to.AwaitedSecrets = stillAwaited(to.AwaitedSecrets, &before.Spec, &cluster.Spec)
	to.SecretRef = storedReference(before.Spec.SecretRef, cluster.Spec.SecretRef, to.SecretRef)
	to.ImpersonatorSecretRef = storedReference(before.Spec.ImpersonatorSecretRef, cluster.Spec.ImpersonatorSecretRef, to.ImpersonatorSecretRef)
	return recordManagedFields(to, cluster.ManagedFields)
}

func storeSpec(to *fleetv1alpha1.ClusterConnectionSpec, cluster *v1alpha1.Cluster) {
	from := &cluster.Spec
	to.SyncMode = fleetv1alpha1.SyncMode(from.SyncMode)
	to.SecretRef = localReference(cluster.Name, from.SecretRef, fleetv1alpha1.DefaultSecretName)
	if to.SecretRef != nil && to.SecretRef.Name == fleetv1alpha1.DefaultSecretName && from.SyncMode == v1alpha1.Push {
		to.SecretRef = nil
	}
	to.ImpersonatorSecretRef = localReference(cluster.Name, from.ImpersonatorSecretRef, fleetv1alpha1.ImpersonatorSecretName)
	to.InsecureSkipTLSVerification = from.InsecureSkipTLSVerification
	to.ProxyURL = from.ProxyURL
	to.ProxyHeader = maps.Clone(from.ProxyHeader)
	to.ResourceModels = connectionModels(from.ResourceModels)
}

// storePlace stores where a cluster is as far as that changes. What its agent
// reports is not written down, so that it follows the nodes and the agent; but the
// hub connects to a Push cluster, and there only what is written down counts.
func storePlace(connection *fleetv1alpha1.ClusterConnection, before, after *v1alpha1.ClusterSpec) {
	to := &connection.Spec
	reported := &connection.Status
	if after.Provider != before.Provider {
		to.Provider = zeroIfKnown(after.Provider == reported.Provider, after.Provider)
	}
	if after.Region != before.Region {
		to.Region = zeroIfKnown(after.Region == reported.Region, after.Region)
	}
	if !slices.Equal(after.Zones, before.Zones) {
		to.Zones = zeroIfKnown(slices.Equal(after.Zones, reported.Zones), slices.Clone(after.Zones))
	}
	if push := after.SyncMode == v1alpha1.Push; push || after.APIEndpoint != before.APIEndpoint {
		to.APIEndpoint = zeroIfKnown(!push && after.APIEndpoint == connection.Cluster.APIEndpoint, after.APIEndpoint)
	}
}

// zeroIfKnown returns a value, or nothing if it is known from elsewhere.
func zeroIfKnown[T any](known bool, value T) T {
	if known {
		var nothing T
		return nothing
	}
	return value
}

// localReference returns the reference to a Secret in the namespace of the
// cluster: the Secret itself, or its copy.
func localReference(namespace string, ref *v1alpha1.LocalSecretReference, copied string) *fleetv1alpha1.SecretReference {
	switch {
	case ref == nil:
		return nil
	case ref.Namespace == namespace:
		return &fleetv1alpha1.SecretReference{Name: ref.Name}
	default:
		return &fleetv1alpha1.SecretReference{Name: copied}
	}
}

// storedReference returns what is stored of a reference as it was written: a Cluster
// that shows one which nobody wrote does not begin to have it.
func storedReference(before, after *v1alpha1.LocalSecretReference, stored *fleetv1alpha1.NamespacedSecretReference) *fleetv1alpha1.NamespacedSecretReference {
	switch {
	case after == nil:
		return nil
	case before != nil && *before == *after:
		return stored
	default:
		return &fleetv1alpha1.NamespacedSecretReference{Namespace: after.Namespace, Name: after.Name}
	}
}

// stillAwaited returns those of the Secrets that a Cluster waits for to which it refers as
// before.
func stillAwaited(earlier []fleetv1alpha1.AwaitedSecret, before, after *v1alpha1.ClusterSpec) []fleetv1alpha1.AwaitedSecret {
	return slices.DeleteFunc(slices.Clone(earlier), func(secret fleetv1alpha1.AwaitedSecret) bool {
		if secret.Copy == fleetv1alpha1.ImpersonatorSecretName {
			return !equality.Semantic.DeepEqual(before.ImpersonatorSecretRef, after.ImpersonatorSecretRef)
		}
		return !equality.Semantic.DeepEqual(before.SecretRef, after.SecretRef)
	})
}

// recordManagedFields stores who manages which fields.
func recordManagedFields(to *fleetv1alpha1.ClusterProjection, entries []metav1.ManagedFieldsEntry) error {
	to.ManagedFields = ""
	if len(entries) == 0 {
		return nil
	}
	encoded, err := json.Marshal(entries)
	if err != nil {
		return fmt.Errorf("encode the managed fields: %w", err)
	}
	to.ManagedFields = string(encoded)
	return nil
}

// IntentDifference returns what a ManagedCluster has to become when its Cluster
// changes: nothing is said about what does not change.
func IntentDifference(before, after *v1alpha1.Cluster) fleetv1alpha1.ClusterIntent {
	intent := fleetv1alpha1.ClusterIntent{}
	for _, key := range slices.Sorted(maps.Keys(before.Labels)) {
		if _, kept := after.Labels[key]; !kept {
			intent.RemovedLabels = append(intent.RemovedLabels, key)
		}
	}
	for key, value := range after.Labels {
		if had, ok := before.Labels[key]; !ok || had != value {
			if intent.Labels == nil {
				intent.Labels = map[string]string{}
			}
			intent.Labels[key] = value
		}
	}
	for _, t := range before.Spec.Taints {
		if findTaint(after.Spec.Taints, t) < 0 {
			intent.RemovedTaints = append(intent.RemovedTaints, taintWithoutTime(t))
		}
	}
	for _, t := range after.Spec.Taints {
		if at := findTaint(before.Spec.Taints, t); at < 0 || before.Spec.Taints[at].Value != t.Value {
			intent.Taints = append(intent.Taints, taintWithoutTime(t))
		}
	}
	intent.Delete = after.DeletionTimestamp != nil && before.DeletionTimestamp == nil
	intent.Force = after.DeletionTimestamp != nil && len(after.Finalizers) == 0 && len(before.Finalizers) > 0
	return intent
}

// taintWithoutTime returns a taint without the time, which the hub sets.
func taintWithoutTime(t corev1.Taint) corev1.Taint {
	return corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}
}

func findTaint(taints []corev1.Taint, t corev1.Taint) int {
	return slices.IndexFunc(taints, func(other corev1.Taint) bool { return other.Key == t.Key && other.Effect == t.Effect })
}

// MergeIntent adds a later change to an intent that is not completed yet, which may be
// nil: where they contradict each other the later one counts.
func MergeIntent(earlier *fleetv1alpha1.ClusterIntent, later fleetv1alpha1.ClusterIntent) *fleetv1alpha1.ClusterIntent {
	if earlier == nil {
		return later.DeepCopy()
	}
	merged := earlier.DeepCopy()
	for _, key := range later.RemovedLabels {
		delete(merged.Labels, key)
		if !slices.Contains(merged.RemovedLabels, key) {
			merged.RemovedLabels = append(merged.RemovedLabels, key)
		}
	}
	for key, value := range later.Labels {
		if merged.Labels == nil {
			merged.Labels = map[string]string{}
		}
		merged.Labels[key] = value
		merged.RemovedLabels = slices.DeleteFunc(merged.RemovedLabels, func(removed string) bool { return removed == key })
	}
	for _, t := range later.RemovedTaints {
		merged.Taints = withoutTaint(merged.Taints, t)
		merged.RemovedTaints = append(withoutTaint(merged.RemovedTaints, t), t)
	}
	for _, t := range later.Taints {
		merged.RemovedTaints = withoutTaint(merged.RemovedTaints, t)
		merged.Taints = append(withoutTaint(merged.Taints, t), t)
	}
	merged.Accept = merged.Accept || later.Accept
	merged.Delete = merged.Delete || later.Delete
	merged.Force = merged.Force || later.Force
	return merged
}

func withoutTaint(taints []corev1.Taint, t corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(other corev1.Taint) bool { return other.Key == t.Key && other.Effect == t.Effect })
}

// AcceptCluster adds the acceptance of the ManagedCluster to the intent.
func AcceptCluster(connection *fleetv1alpha1.ClusterConnection, intentID string) {
	connection.Cluster.Intent = MergeIntent(connection.Cluster.Intent, fleetv1alpha1.ClusterIntent{Accept: true})
	connection.Cluster.Intent.ID = intentID
}
