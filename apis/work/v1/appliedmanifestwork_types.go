// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AppliedManifestWork is the agent's record, on the member, of the objects that
// it applied for one ManifestWork. It owns these objects: deleting it deletes
// them. Its name is <hash of the hub>-<name of the ManifestWork>.
//
// The agent creates, updates and deletes it; users only read it.
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

	// spec identifies the ManifestWork, the hub and the agent.
	Spec AppliedManifestWorkSpec `json:"spec,omitempty"`

	// status lists the applied objects.
	// +optional
	Status AppliedManifestWorkStatus `json:"status,omitempty"`
}

// AppliedManifestWorkSpec identifies the ManifestWork, the hub and the agent.
type AppliedManifestWorkSpec struct {
	// hubHash is the SHA-256 hash, in hexadecimal, of the URL of the hub's API
	// server.
	// +required
	// +kubebuilder:validation:Required
	HubHash string `json:"hubHash"`

	// agentID identifies the agent; it is the UID of its Klusterlet. An agent
	// takes over or removes records of a previous hub only if they have its own
	// agentID.
	// +optional
	AgentID string `json:"agentID"`

	// manifestWorkName is the name of the ManifestWork.
	// +required
	// +kubebuilder:validation:Required
	ManifestWorkName string `json:"manifestWorkName"`
}

// AppliedManifestWorkStatus lists the applied objects.
type AppliedManifestWorkStatus struct {
	// appliedResources are the objects that were applied for the ManifestWork and
	// have not been deleted since.
	// +optional
	AppliedResources []AppliedManifestResourceMeta `json:"appliedResources,omitempty"`

	// evictionStartTime is the time at which no agent was responsible for this
	// record any more, because the ManifestWork is gone or the agent has moved to
	// another hub. The record and its objects are deleted after
	// appliedManifestWorkEvictionGracePeriod of the Klusterlet. Empty while an
	// agent is responsible for it.
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

	// uid is the UID of the object, so that an object recreated by someone else
	// under the same name is not deleted. Empty if unknown.
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
