// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// RolloutStrategy says how a change is rolled out to the members that a
// Placement has chosen.
type RolloutStrategy struct {
	// type is how the rollout proceeds: All changes all members at once, Progressive
	// some at a time, and ProgressivePerGroup one decision group of the Placement
	// after the other. Default: All.
	// +kubebuilder:validation:Enum=All;Progressive;ProgressivePerGroup
	// +kubebuilder:default:=All
	// +optional
	Type RolloutType `json:"type,omitempty"`

	// all configures type All.
	// +optional
	All *RolloutAll `json:"all,omitempty"`

	// progressive configures type Progressive.
	// +optional
	Progressive *RolloutProgressive `json:"progressive,omitempty"`

	// progressivePerGroup configures type ProgressivePerGroup.
	// +optional
	ProgressivePerGroup *RolloutProgressivePerGroup `json:"progressivePerGroup,omitempty"`
}

// RolloutType is how a rollout proceeds.
type RolloutType string

const (
	// RolloutTypeAll changes all members at once.
	RolloutTypeAll RolloutType = "All"
	// RolloutTypeProgressive changes some members at a time.
	RolloutTypeProgressive RolloutType = "Progressive"
	// RolloutTypeProgressivePerGroup changes one decision group after the other.
	RolloutTypeProgressivePerGroup RolloutType = "ProgressivePerGroup"
)

// RolloutDuration is a duration such as 90s or 1h30m. It is text here, so that a
// wrong one can be reported: an object that cannot be read would stop its reader.
type RolloutDuration string

// RolloutConfig says when a member has succeeded, and when it has failed.
type RolloutConfig struct {
	// minSuccessTime is how long a member has to have succeeded before it counts,
	// such as 90s, 5m or 1h. Default: 0, which is at once.
	// +kubebuilder:default:="0"
	// +optional
	MinSuccessTime RolloutDuration `json:"minSuccessTime,omitempty"`

	// progressDeadline is how long a member may take to succeed, such as 90s, 5m or
	// 1h. After that it has failed; a member that fails may recover until then.
	// Default: None, where a member may take as long as it wants, and fails at once.
	// +kubebuilder:validation:Pattern="^(([0-9])+[h|m|s])|None$"
	// +kubebuilder:default:="None"
	// +optional
	ProgressDeadline string `json:"progressDeadline,omitempty"`

	// maxFailures is the number of members that may fail, as a number or a percentage of all
	// members. When more fail, no other member is changed. Type All ignores it.
	// Default: 0.
	// +kubebuilder:validation:Pattern="^((100|[0-9]{1,2})%|[0-9]+)$"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:default=0
	// +optional
	MaxFailures intstr.IntOrString `json:"maxFailures,omitempty"`
}

// MandatoryDecisionGroup names a decision group.
type MandatoryDecisionGroup struct {
	// groupName is the name of the group. Default: groupIndex counts.
	// +optional
	GroupName string `json:"groupName,omitempty"`

	// groupIndex is the number of the group, from 0, if groupName is empty.
	// +optional
	GroupIndex int32 `json:"groupIndex,omitempty"`
}

// MandatoryDecisionGroups are decision groups that come first.
type MandatoryDecisionGroups struct {
	// mandatoryDecisionGroups are decision groups that are changed first, one after
	// the other. None of their members may fail. With more than 1,024 of them, no
	// member is changed. Default: none.
	// +optional
	MandatoryDecisionGroups []MandatoryDecisionGroup `json:"mandatoryDecisionGroups,omitempty"`
}

// RolloutAll configures type All.
type RolloutAll struct {
	// +optional
	RolloutConfig `json:",inline"`
}

// RolloutProgressive configures type Progressive.
type RolloutProgressive struct {
	// +optional
	RolloutConfig `json:",inline"`

	// +optional
	MandatoryDecisionGroups `json:",inline"`

	// maxConcurrency is the number of members that are changed at a time, as a number or a
	// percentage of all members. Default: all of them.
	// +kubebuilder:validation:Pattern="^((100|[0-9]{1,2})%|[0-9]+)$"
	// +kubebuilder:validation:XIntOrString
	// +optional
	MaxConcurrency intstr.IntOrString `json:"maxConcurrency,omitempty"`
}

// RolloutProgressivePerGroup configures type ProgressivePerGroup.
type RolloutProgressivePerGroup struct {
	// +optional
	RolloutConfig `json:",inline"`

	// +optional
	MandatoryDecisionGroups `json:",inline"`
}
