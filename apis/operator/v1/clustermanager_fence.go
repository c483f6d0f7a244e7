// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// ConditionUnfenced of a ClusterManager or Klusterlet tells whether the account
// of its operator could get at credentials that are not its own, because no
// ValidatingAdmissionPolicy bars it from other namespaces. The operator makes
// that itself where its role allows it; nothing else depends on it.
const ConditionUnfenced = "Unfenced"

// Reasons of ConditionUnfenced.
const (
	// ReasonFenced (False): the fence is there and in force.
	ReasonFenced = "Fenced"
	// ReasonFenceForbidden (True): there is no fence, and the operator may not
	// make it, or may not read whether there is one.
	ReasonFenceForbidden = "FenceForbidden"
	// ReasonFenceChanged (True): someone changed the fence.
	ReasonFenceChanged = "FenceChanged"
	// ReasonFenceFailed (True): it is not known whether there is a fence; the
	// message has the error.
	ReasonFenceFailed = "FenceFailed"
)
