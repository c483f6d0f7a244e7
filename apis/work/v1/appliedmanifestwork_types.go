// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppliedManifestWork is the agent's record, on the member, of the objects that
// it applied for one ManifestWork. It owns these objects: they are deleted with
// it. Its name is <hash of the hub>-<name of the ManifestWork>.
//
// It is made, changed and deleted by the agent; users only read it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Work",type=string,JSONPath=`.spec.manifestWorkName`
// +kubebuilder:printcolumn:name="Evicting",type=date,JSONPath=`.status.evictionStartTime`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.spec.agentID`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AppliedManifestWork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec tells which ManifestWork, hub and agent this is about.
	Spec AppliedManifestWorkSpec `json:"spec,omitempty"`

	// status lists the objects.
	// +optional
	Status AppliedManifestWorkStatus `json:"status,omitempty"`
}

// AppliedManifestWorkSpec tells which ManifestWork, hub and agent a record is
// about.
type AppliedManifestWorkSpec struct {
	// hubHash is the SHA-256 hash, in hexadecimal digits, of the address of the
	// hub's API server.
	// +required
	// +kubebuilder:validation:Required
	HubHash string `json:"hubHash"`

	// agentID identifies the agent; it is the UID of its Klusterlet. An agent
	// takes over or removes the records of an earlier hub only if they have its
	// own agentID.
	// +optional
	AgentID string `json:"agentID"`

	// manifestWorkName is the name of the ManifestWork.
	// +required
	// +kubebuilder:validation:Required
	ManifestWorkName string `json:"manifestWorkName"`
}

// AppliedManifestWorkStatus lists the objects of a record.
type AppliedManifestWorkStatus struct {
	// appliedResources are the objects that were applied for the ManifestWork and
	// not deleted since.
	// +optional
	AppliedResources []AppliedManifestResourceMeta `json:"appliedResources,omitempty"`

	// evictionStartTime is the time since which no agent takes care of this
	// record, because the ManifestWork is gone or the agent has another hub. The
	// record and its objects are deleted when appliedManifestWorkEvictionGracePeriod
	// of the Klusterlet is over. Empty while an agent takes care of it.
	// +optional
	EvictionStartTime *metav1.Time `json:"evictionStartTime,omitempty"`
}

// AppliedManifestResourceMeta names an object on the member.
type AppliedManifestResourceMeta struct {
	ResourceIdentifier `json:",inline"`

	// version is the API version of the object.
	// +required
	// +kubebuilder:validation:Required
	Version string `json:"version"`

	// uid is the UID of the object, so that an object that someone else made under
	// the same name is not deleted. Empty if it is not known.
	// +optional
	UID string `json:"uid,omitempty"`
}

// AppliedManifestWorkList is a list of AppliedManifestWorks.
//
// +kubebuilder:object:root=true
type AppliedManifestWorkList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the AppliedManifestWorks.
	Items []AppliedManifestWork `json:"items"`
}
