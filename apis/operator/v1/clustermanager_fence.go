// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// ConditionUnfenced of a ClusterManager or Klusterlet reports whether its
// operator's account could reach credentials of other accounts, because no
// ValidatingAdmissionPolicy keeps it out of other namespaces. The operator
// installs that policy where its role allows; nothing else depends on it.
const ConditionUnfenced = "Unfenced"

// Reasons of ConditionUnfenced.
const (
	// ReasonFenced (False): the fence is installed and enforced.
	ReasonFenced = "Fenced"
	// ReasonFenceForbidden (True): the operator is not allowed to install the
	// fence, or to read whether there is one.
	ReasonFenceForbidden = "FenceForbidden"
	// ReasonFenceChanged (True): someone changed the fence.
	ReasonFenceChanged = "FenceChanged"
	// ReasonFenceFailed (True): the fence could not be read or installed; the
	// message contains the error.
	ReasonFenceFailed = "FenceFailed"
)
