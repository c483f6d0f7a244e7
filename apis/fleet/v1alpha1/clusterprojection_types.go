// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClusterProjection is what the Cluster API serves of a cluster besides spec and
// status of its ClusterConnection. The labels of a Cluster are those of the
// ClusterConnection, which mirror those of the ManagedCluster, so that selectors
// work on both.
type ClusterProjection struct {
	// uid is that of the ManagedCluster, from which the UID of the Cluster follows.
	// +required
	// +kubebuilder:validation:Required
	UID types.UID `json:"uid"`

	// id identifies the cluster, as status.id does, once the hub has verified it. It
	// is unique: of two Clusters that are the same cluster the later one has none, and
	// condition DuplicateIdentity says which one has it.
	// +optional
	ID string `json:"id,omitempty"`

	// resourceVersion is that of the ManagedCluster when it was mirrored.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// creationTimestamp is that of the ManagedCluster.
	// +optional
	CreationTimestamp metav1.Time `json:"creationTimestamp,omitempty"`

	// deletionTimestamp is that of the ManagedCluster.
	// +optional
	DeletionTimestamp *metav1.Time `json:"deletionTimestamp,omitempty"`

	// generation is that of the Cluster: it grows when the spec of the Cluster
	// changes, taints included, and never falls.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// annotations are those of the Cluster. They are its own: a ManagedCluster has
	// others.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// accepted is spec.hubAcceptsClient of the ManagedCluster.
	// +optional
	Accepted bool `json:"accepted,omitempty"`

	// apiEndpoint is the first usable URL in spec.managedClusterClientConfigs of the
	// ManagedCluster, which the agent of a Pull cluster reports. The Cluster shows it
	// unless spec.apiEndpoint is set; the hub connects to nothing by it.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	APIEndpoint string `json:"apiEndpoint,omitempty"`

	// taints are those of the ManagedCluster, with the effects of Kubernetes:
	// NoSelect is NoExecute, NoSelectIfNew NoSchedule, and PreferNoSelect
	// PreferNoSchedule.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`

	// conditions are those of the ManagedCluster, DuplicateIdentity among them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// secretRef is spec.secretRef of the Cluster as it was written.
	// +optional
	SecretRef *NamespacedSecretReference `json:"secretRef,omitempty"`

	// impersonatorSecretRef is spec.impersonatorSecretRef of the Cluster as it was
	// written.
	// +optional
	ImpersonatorSecretRef *NamespacedSecretReference `json:"impersonatorSecretRef,omitempty"`

	// awaitedSecrets are the Secrets in other namespaces that the Cluster refers to
	// and that did not exist when it began to: the hub copies each when it does.
	// +optional
	// +listType=map
	// +listMapKey=copy
	// +kubebuilder:validation:MaxItems=2
	AwaitedSecrets []AwaitedSecret `json:"awaitedSecrets,omitempty"`

	// managedFields are those of the Cluster, as JSON.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	ManagedFields string `json:"managedFields,omitempty"`

	// intent is the part of a write to the Cluster that the ManagedCluster does not have yet.
	// The hub completes it, and then removes it.
	// +optional
	Intent *ClusterIntent `json:"intent,omitempty"`
}

// NamespacedSecretReference names a Secret on the hub.
type NamespacedSecretReference struct {
	// namespace is the namespace of the Secret.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`
}

// AwaitedSecret is a Secret that is to be copied into the namespace of a cluster
// as soon as it exists: the one that secretRef or impersonatorSecretRef names.
type AwaitedSecret struct {
	// copy is the name of the copy: cluster-connection is that of the Secret in
	// secretRef, cluster-impersonator that of the one in impersonatorSecretRef.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=cluster-connection;cluster-impersonator
	Copy string `json:"copy"`

	// requester is who wrote the reference. Nothing is copied unless this user may
	// get the Secret at that moment.
	// +required
	// +kubebuilder:validation:Required
	Requester Requester `json:"requester"`

	// requestedAt is when the reference was written. A Secret that is created more than
	// a day later is not copied.
	// +required
	// +kubebuilder:validation:Required
	RequestedAt metav1.Time `json:"requestedAt"`

	// message says why it is not copied yet, and what to do.
	// +optional
	Message string `json:"message,omitempty"`
}

// Requester is a user of the hub, as its API server knew it when it authenticated
// a request.
type Requester struct {
	// username is the name of the user.
	// +required
	// +kubebuilder:validation:Required
	Username string `json:"username"`

	// uid identifies the user among those that have had the name.
	// +optional
	UID string `json:"uid,omitempty"`

	// groups are those of the user.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`

	// extra is what else the hub's authorizers may ask for.
	// +optional
	Extra map[string][]string `json:"extra,omitempty"`
}

// ClusterIntent is a change of a ManagedCluster that was written to its Cluster.
// It says what to change and not what to become, so that changes that others make
// to the ManagedCluster meanwhile are kept. Completing it twice does nothing more.
type ClusterIntent struct {
	// id is another one each time that something is added to the intent. The
	// ManagedCluster has that of the latest intent that was completed in annotation
	// fleet.capstan.io/completed-intent, so that it is not completed twice.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id,omitempty"`

	// labels are set on the ManagedCluster, and removedLabels taken from it.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// removedLabels are the keys of labels that are taken from the ManagedCluster.
	// +optional
	// +listType=set
	RemovedLabels []string `json:"removedLabels,omitempty"`

	// taints are set on the ManagedCluster, in the place of those of the same key and
	// effect.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`

	// removedTaints are taken from the ManagedCluster, by key and effect.
	// +optional
	// +listType=atomic
	RemovedTaints []corev1.Taint `json:"removedTaints,omitempty"`

	// accept accepts the ManagedCluster. Who wrote it was allowed to.
	// +optional
	Accept bool `json:"accept,omitempty"`

	// delete deletes the ManagedCluster.
	// +optional
	Delete bool `json:"delete,omitempty"`

	// force ends the deletion of the cluster without waiting for its agent: the
	// finalizers of its works are removed, and what they brought stays on the cluster.
	// +optional
	Force bool `json:"force,omitempty"`
}
