// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of ManifestWork. Progressing, Degraded and Complete, and any
// other type, exist only if a condition rule makes them.
const (
	// ManifestWorkConditionApplied tells whether all objects were applied.
	ManifestWorkConditionApplied = "Applied"
	// ManifestWorkConditionAvailable tells whether all objects exist on the member.
	// It does not tell whether they work.
	ManifestWorkConditionAvailable = "Available"
	// ManifestWorkConditionStatusFeedbackSynced tells whether all fields that
	// feedback rules ask for could be read.
	ManifestWorkConditionStatusFeedbackSynced = "StatusFeedbackSynced"
	// ManifestWorkConditionDeleting tells that the agent is deleting the objects.
	ManifestWorkConditionDeleting = "Deleting"
	// ManifestWorkConditionProgressing tells whether any object is on its way to
	// the given state.
	ManifestWorkConditionProgressing = "Progressing"
	// ManifestWorkConditionDegraded tells whether any object does not work well.
	ManifestWorkConditionDegraded = "Degraded"
	// ManifestWorkConditionComplete tells whether all objects have done what they
	// are for; they are not applied again then.
	ManifestWorkConditionComplete = "Complete"
)

// Reasons of the conditions of ManifestWork.
const (
	// ManifestWorkReasonAppliedManifestWorkComplete (Applied=True): all objects
	// were applied.
	ManifestWorkReasonAppliedManifestWorkComplete = "AppliedManifestWorkComplete"
	// ManifestWorkReasonAppliedManifestWorkFailed (Applied=False): at least one
	// object was not applied; its own condition tells why.
	ManifestWorkReasonAppliedManifestWorkFailed = "AppliedManifestWorkFailed"

	// ManifestWorkReasonResourcesAvailable (Available=True): all objects exist.
	ManifestWorkReasonResourcesAvailable = "ResourcesAvailable"
	// ManifestWorkReasonResourcesNotAvailable (Available=False): at least one
	// object does not exist.
	ManifestWorkReasonResourcesNotAvailable = "ResourcesNotAvailable"
	// ManifestWorkReasonResourcesStatusUnknown (Available=Unknown): at least one
	// object could not be read.
	ManifestWorkReasonResourcesStatusUnknown = "ResourcesStatusUnknown"

	// ManifestWorkReasonWorkDeleting (Deleting=True): the ManifestWork was deleted
	// and its objects are being deleted.
	ManifestWorkReasonWorkDeleting = "WorkDeleting"

	// ManifestWorkReasonConditionRulesAggregated: the condition sums up conditions
	// that condition rules made for single objects.
	ManifestWorkReasonConditionRulesAggregated = "ConditionRulesAggregated"
	// ManifestWorkReasonHealthAggregated: the condition sums up the health of
	// single objects, for which there is no condition rule.
	ManifestWorkReasonHealthAggregated = "HealthAggregated"
)

// Condition types of the entries of status.resourceStatus.manifests. Progressing,
// Degraded and Complete, and any other type, exist only if a condition rule makes
// them.
const (
	// ManifestConditionApplied tells whether the object was applied.
	ManifestConditionApplied = "Applied"
	// ManifestConditionAvailable tells whether the object exists on the member.
	ManifestConditionAvailable = "Available"
	// ManifestConditionStatusFeedbackSynced tells whether the fields that feedback
	// rules ask for could be read.
	ManifestConditionStatusFeedbackSynced = "StatusFeedbackSynced"
	// ManifestConditionProgressing tells whether the object is on its way to the
	// given state.
	ManifestConditionProgressing = "Progressing"
	// ManifestConditionDegraded tells whether the object does not work well.
	ManifestConditionDegraded = "Degraded"
	// ManifestConditionComplete tells whether the object has done what it is for.
	ManifestConditionComplete = "Complete"
)

// Reasons of the conditions of single objects.
const (
	// ManifestReasonAppliedManifestComplete (Applied=True): the object was applied.
	ManifestReasonAppliedManifestComplete = "AppliedManifestComplete"
	// ManifestReasonAppliedManifestFailed (Applied=False): the object was not
	// applied; the message has the error.
	ManifestReasonAppliedManifestFailed = "AppliedManifestFailed"
	// ManifestReasonAppliedManifestSSAIgnoreFieldError (Applied=False): a path in
	// serverSideApply.ignoreFields is not valid.
	ManifestReasonAppliedManifestSSAIgnoreFieldError = "AppliedManifestSSAIgnoreFieldError"

	// ManifestReasonResourceAvailable (Available=True): the object exists.
	ManifestReasonResourceAvailable = "ResourceAvailable"
	// ManifestReasonResourceNotAvailable (Available=False): the object does not
	// exist.
	ManifestReasonResourceNotAvailable = "ResourceNotAvailable"
	// ManifestReasonFetchingResourceFailed (Available=Unknown): the object could
	// not be read; the message has the error.
	ManifestReasonFetchingResourceFailed = "FetchingResourceFailed"
	// ManifestReasonIncompleteResourceMeta (Available=Unknown): it is not known
	// which object to read, because the member does not know its kind.
	ManifestReasonIncompleteResourceMeta = "IncompleteResourceMeta"

	// ManifestReasonStatusFeedbackSynced (StatusFeedbackSynced=True): the fields
	// were read.
	ManifestReasonStatusFeedbackSynced = "StatusFeedbackSynced"
	// ManifestReasonStatusFeedbackSyncFailed (StatusFeedbackSynced=False): a field
	// could not be read; the message tells which and why.
	ManifestReasonStatusFeedbackSyncFailed = "StatusFeedbackSyncFailed"
	// ManifestReasonNoStatusFeedbackSynced (StatusFeedbackSynced=True): no feedback
	// rule is for this object.
	ManifestReasonNoStatusFeedbackSynced = "NoStatusFeedbackSynced"

	// ManifestReasonConditionRuleEvaluated: the condition is the result of a
	// condition rule.
	ManifestReasonConditionRuleEvaluated = "ConditionRuleEvaluated"
	// ManifestReasonConditionRuleInvalid (Unknown): the condition rule cannot be
	// evaluated, because of its type, its length or because it has no expression.
	ManifestReasonConditionRuleInvalid = "ConditionRuleInvalid"
	// ManifestReasonConditionRuleExpressionError (False; Unknown for Progressing):
	// an expression of the condition rule is not valid or failed; the message has
	// the error.
	ManifestReasonConditionRuleExpressionError = "ConditionRuleExpressionError"
	// ManifestReasonConditionRuleInternalError (Unknown): the agent could not
	// evaluate the condition rule.
	ManifestReasonConditionRuleInternalError = "ConditionRuleInternalError"

	// ManifestReasonHealthUnknown (Progressing or Degraded Unknown): the object
	// could not be read, so its health is not known. The reasons for other values
	// of these conditions without a rule are those of the kind of the object.
	ManifestReasonHealthUnknown = "HealthUnknown"
)
