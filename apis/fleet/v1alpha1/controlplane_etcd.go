// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// ControlPlaneEtcd is where the API server stores its objects.
//
// +kubebuilder:validation:XValidation:rule="has(self.managed) != has(self.external)",message="set exactly one of managed and external"
// +kubebuilder:validation:XValidation:rule="has(self.managed) == has(oldSelf.managed)",message="a managed etcd cannot become an external one, or the other way round"
type ControlPlaneEtcd struct {
	// managed is an etcd that the operator runs.
	// +optional
	Managed *ControlPlaneManagedEtcd `json:"managed,omitempty"`
	// external is an etcd that somebody else runs.
	// +optional
	External *ControlPlaneExternalEtcd `json:"external,omitempty"`
}

// DeletionPolicy is what becomes of data when the object that holds it is
// deleted.
type DeletionPolicy string

const (
	// DeletionPolicyRetain keeps the data.
	DeletionPolicyRetain DeletionPolicy = "Retain"
	// DeletionPolicyDelete deletes the data.
	DeletionPolicyDelete DeletionPolicy = "Delete"
)

// ControlPlaneManagedEtcd is an etcd that the operator runs.
//
// +kubebuilder:validation:XValidation:rule="self.replicas == oldSelf.replicas",message="the number of members cannot be changed"
// +kubebuilder:validation:XValidation:rule="self.storage == oldSelf.storage",message="the storage of members that exist cannot be changed"
type ControlPlaneManagedEtcd struct {
	// replicas is the number of members: 1, or 3, of which one may fail. It is
	// immutable.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Enum=1;3
	Replicas int32 `json:"replicas,omitempty"`

	// storage is that of each member. It is immutable.
	// +kubebuilder:default={}
	Storage ControlPlaneStorage `json:"storage,omitempty"`

	// deletionPolicy is what becomes of the data when the ControlPlane is deleted:
	// Retain keeps the PersistentVolumeClaims, and the Secrets without which nobody
	// can read the data, for a ControlPlane of the same name; Delete deletes them.
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// resources are those of each container. Default: requests of 100m CPU and
	// 128Mi memory.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// ControlPlaneStorage is the storage of a member of etcd.
type ControlPlaneStorage struct {
	// size is the capacity that is asked for, such as 8Gi.
	// +kubebuilder:default="8Gi"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",message="has to be a quantity such as 8Gi"
	Size string `json:"size,omitempty"`

	// className is the StorageClass. Default: the default one of the host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:MinLength=1
	ClassName *string `json:"className,omitempty"`
}

// ControlPlaneExternalEtcd is an etcd that somebody else runs.
type ControlPlaneExternalEtcd struct {
	// endpoints are the URLs of its members, such as https://etcd-0.example.com:2379.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=15
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.all(e, isURL(e) && url(e).getScheme() == 'https' && url(e).getHostname() != '')",message="endpoints have to be URLs such as https://etcd-0.example.com:2379"
	Endpoints []string `json:"endpoints"`

	// secretRef names the Secret in the namespace of the ControlPlane with the
	// credential: keys ca.crt, tls.crt and tls.key.
	// +required
	// +kubebuilder:validation:Required
	SecretRef SecretReference `json:"secretRef"`

	// prefix is the key prefix of everything that the API server stores. It is
	// immutable. Default: /registry.
	// +kubebuilder:default="/registry"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[-a-zA-Z0-9._]+)+$')",message="has to be a path such as /registry"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the prefix cannot be changed: the API server would find nothing of what it stored"
	Prefix string `json:"prefix,omitempty"`
}
