// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PropagationRevision is what an object of a rollout was made of for the clusters:
// the hub makes that again for clusters whose turn has not come, and if a change
// is undone. The hub writes and deletes them; nobody else needs to.
//
// +genclient
// +genclient:nonNamespaced
// +genclient:noStatus
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=prv
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.bindingNamespace`
// +kubebuilder:printcolumn:name="Binding",type=string,JSONPath=`.spec.bindingName`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PropagationRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec records what the object was made of.
	// +required
	Spec PropagationRevisionSpec `json:"spec"`
}

// PropagationRevisionSpec is what an object was made of.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a revision does not change"
type PropagationRevisionSpec struct {
	// rolloutNamespace is the namespace of the rollout; it is empty for a
	// ClusterPropagationRollout.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	RolloutNamespace string `json:"rolloutNamespace,omitempty"`

	// rolloutName is the name of the rollout.
	// +required
	// +kubebuilder:validation:MaxLength=253
	RolloutName string `json:"rolloutName"`

	// bindingNamespace is the namespace of the binding of the object; it is empty for
	// a ClusterResourceBinding.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	BindingNamespace string `json:"bindingNamespace,omitempty"`

	// bindingName is the name of the binding.
	// +required
	// +kubebuilder:validation:MaxLength=253
	BindingName string `json:"bindingName"`

	// revision is the number of the change.
	// +required
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision"`

	// Rules read the format byte as base64url and fail on + and /, with which nothing
	// of the object could be updated. So the content has a pattern instead.

	// content is the object and the override policies about it, as JSON that is
	// compressed by gzip.
	// +required
	// +kubebuilder:validation:MaxLength=1500000
	// +kubebuilder:validation:Format=""
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9+/]*={0,2}$`
	Content []byte `json:"content"`
}

// PropagationRevisionList is a list of PropagationRevisions.
//
// +kubebuilder:object:root=true
type PropagationRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the revisions.
	Items []PropagationRevision `json:"items"`
}
