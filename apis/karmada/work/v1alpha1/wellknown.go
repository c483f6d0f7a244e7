// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

const (
	// NamespacePrefix is what the namespaces of Works begin with; the name of the
	// cluster follows.
	NamespacePrefix = "karmada-es-"
	// LabelPermanentID is the label of a ManifestWork that a binding made. Its value
	// identifies the Work, and stays the same.
	LabelPermanentID = "work.karmada.io/permanent-id"
	// FeedbackStatus is the name of the value that has the status of an object of such
	// a ManifestWork, as its agent reports it.
	FeedbackStatus = "status"
	// FeedbackHealth is the name of the one that has its ResourceHealth.
	FeedbackHealth = "health"
	// Finalizer is on every Work until its objects are gone from the cluster.
	Finalizer = "karmada.io/execution-controller"
)

// Condition types of Work.
const (
	// WorkConditionApplied reports whether the objects are on the cluster as they are
	// wanted.
	WorkConditionApplied = "Applied"
	// WorkConditionDispatching reports whether changes of the objects are brought to
	// the cluster.
	WorkConditionDispatching = "Dispatching"
)

// Reasons of Applied.
const (
	// WorkReasonAppliedSuccessful (True): all objects were applied.
	WorkReasonAppliedSuccessful = "AppliedSuccessful"
	// WorkReasonAppliedFailed (False): an object could not be applied; the message
	// says why.
	WorkReasonAppliedFailed = "AppliedFailed"
	// WorkReasonDispatching (True): they are.
	WorkReasonDispatching = "Dispatching"
	// WorkReasonSuspendDispatching (False): spec.suspendDispatching is true.
	WorkReasonSuspendDispatching = "SuspendDispatching"
)

// ResourceHealth reports whether an object works.
type ResourceHealth string

const (
	// ResourceHealthy says that it works.
	ResourceHealthy ResourceHealth = "Healthy"
	// ResourceUnhealthy says that it does not work.
	ResourceUnhealthy ResourceHealth = "Unhealthy"
	// ResourceUnknown says that this is not known.
	ResourceUnknown ResourceHealth = "Unknown"
)
