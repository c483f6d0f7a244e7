// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

// Condition types of bindings.
const (
	// BindingConditionScheduled reports whether clusters were chosen.
	BindingConditionScheduled = "Scheduled"
	// BindingConditionFullyApplied reports whether the object is in all clusters as it
	// is wanted.
	BindingConditionFullyApplied = "FullyApplied"
)

// Reasons of Scheduled.
const (
	// BindingReasonSuccess (True): clusters were chosen.
	BindingReasonSuccess = "Success"
	// BindingReasonSchedulerError (False): the placement could not be evaluated.
	BindingReasonSchedulerError = "SchedulerError"
	// BindingReasonNoClusterFit (False): no cluster may be chosen.
	BindingReasonNoClusterFit = "NoClusterFit"
	// BindingReasonUnschedulable (False): the clusters have no room for the replicas.
	BindingReasonUnschedulable = "Unschedulable"
	// BindingReasonQuotaExceeded (False): a quota of the hub does not allow it.
	BindingReasonQuotaExceeded = "QuotaExceeded"
)

// Reasons of FullyApplied.
const (
	// BindingReasonFullyAppliedSuccess (True): all clusters have it.
	BindingReasonFullyAppliedSuccess = "FullyAppliedSuccess"
	// BindingReasonFullyAppliedFailed (False): a cluster does not have it; the message
	// says which.
	BindingReasonFullyAppliedFailed = "FullyAppliedFailed"
	// BindingReasonNamespaceFull (False): the works of the bindings and replica sets of the
	// namespace take up all that they may on the hub.
	BindingReasonNamespaceFull = "NamespaceFull"
	// BindingReasonHubFull (False): the works of all namespaces without a limit of their own take
	// up so much that this one may have no more now.
	BindingReasonHubFull = "HubFull"
	// BindingReasonNamespaceThrottled (False): so much was written to the works of the
	// namespace that the rest has to wait for its turn.
	BindingReasonNamespaceThrottled = "NamespaceThrottled"
)
