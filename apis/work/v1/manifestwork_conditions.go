// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of ManifestWork. Progressing, Degraded and Complete, and any
// other type, exist only if a condition rule sets them.
const (
	// ManifestWorkConditionApplied reports whether all objects were applied.
	ManifestWorkConditionApplied = "Applied"
	// ManifestWorkConditionAvailable reports whether all objects exist on the
	// member. It does not report whether they work.
	ManifestWorkConditionAvailable = "Available"
	// ManifestWorkConditionStatusFeedbackSynced reports whether all fields
	// selected by feedback rules could be read.
	ManifestWorkConditionStatusFeedbackSynced = "StatusFeedbackSynced"
	// ManifestWorkConditionDeleting reports that the agent is deleting the
	// objects.
	ManifestWorkConditionDeleting = "Deleting"
	// ManifestWorkConditionProgressing reports whether a rollout of any object is
	// in progress.
	ManifestWorkConditionProgressing = "Progressing"
	// ManifestWorkConditionDegraded reports whether any object is degraded.
	ManifestWorkConditionDegraded = "Degraded"
	// ManifestWorkConditionComplete reports whether all objects have completed;
	// they are not applied again then.
	ManifestWorkConditionComplete = "Complete"
	// ManifestWorkConditionDispatching reports whether the agent brings the work to
	// the cluster. It is there only if that was suspended once.
	ManifestWorkConditionDispatching = "Dispatching"
)

// Reasons of the conditions of ManifestWork.
const (
	// ManifestWorkReasonAppliedManifestWorkComplete (Applied=True): all objects
	// were applied.
	ManifestWorkReasonAppliedManifestWorkComplete = "AppliedManifestWorkComplete"
	// ManifestWorkReasonAppliedManifestWorkFailed (Applied=False): at least one
	// object was not applied; its own condition says why.
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

	// ManifestWorkReasonDispatching (Dispatching=True): it was suspended, and is not
	// any more.
	ManifestWorkReasonDispatching = "Dispatching"
	// ManifestWorkReasonSuspendDispatching (Dispatching=False): the annotation
	// AnnotationSuspendDispatching suspends it.
	ManifestWorkReasonSuspendDispatching = "SuspendDispatching"

	// ManifestWorkReasonConditionRulesAggregated: the condition aggregates the
	// conditions that condition rules set for the objects.
	ManifestWorkReasonConditionRulesAggregated = "ConditionRulesAggregated"
	// ManifestWorkReasonHealthAggregated: the condition aggregates the health of
	// the objects; no condition rule sets it.
	ManifestWorkReasonHealthAggregated = "HealthAggregated"
)

// Condition types of the entries of status.resourceStatus.manifests.
// Progressing, Degraded and Complete, and any other type, exist only if a
// condition rule sets them.
const (
	// ManifestConditionApplied reports whether the object was applied.
	ManifestConditionApplied = "Applied"
	// ManifestConditionAvailable reports whether the object exists on the member.
	ManifestConditionAvailable = "Available"
	// ManifestConditionStatusFeedbackSynced reports whether the fields selected by
	// feedback rules could be read.
	ManifestConditionStatusFeedbackSynced = "StatusFeedbackSynced"
	// ManifestConditionProgressing reports whether a rollout of the object is in
	// progress.
	ManifestConditionProgressing = "Progressing"
	// ManifestConditionDegraded reports whether the object is degraded.
	ManifestConditionDegraded = "Degraded"
	// ManifestConditionComplete reports whether the object has completed.
	ManifestConditionComplete = "Complete"
)

// Reasons of the conditions of each object.
const (
	// ManifestReasonAppliedManifestComplete (Applied=True): the object was applied.
	ManifestReasonAppliedManifestComplete = "AppliedManifestComplete"
	// ManifestReasonAppliedManifestFailed (Applied=False): the object was not
	// applied; the message contains the error.
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
	// not be read; the message contains the error.
	ManifestReasonFetchingResourceFailed = "FetchingResourceFailed"
	// ManifestReasonIncompleteResourceMeta (Available=Unknown): the object cannot
	// be read, because the member does not serve its kind.
	ManifestReasonIncompleteResourceMeta = "IncompleteResourceMeta"

	// ManifestReasonStatusFeedbackSynced (StatusFeedbackSynced=True): the fields
	// were read.
	ManifestReasonStatusFeedbackSynced = "StatusFeedbackSynced"
	// ManifestReasonStatusFeedbackSyncFailed (StatusFeedbackSynced=False): a field
	// could not be read; the message says which and why.
	ManifestReasonStatusFeedbackSyncFailed = "StatusFeedbackSyncFailed"
	// ManifestReasonInterpretationFailed (StatusFeedbackSynced=False): who
	// customizes the kind on the hub does not say what the object says.
	ManifestReasonInterpretationFailed = "InterpretationFailed"
	// ManifestReasonNoStatusFeedbackSynced (StatusFeedbackSynced=True): no
	// feedback rule applies to this object.
	ManifestReasonNoStatusFeedbackSynced = "NoStatusFeedbackSynced"

	// ManifestReasonConditionRuleEvaluated: the condition is the result of a
	// condition rule.
	ManifestReasonConditionRuleEvaluated = "ConditionRuleEvaluated"
	// ManifestReasonConditionRuleInvalid (Unknown): the condition rule cannot be
	// evaluated, because of its type or length, or because it has no expression.
	ManifestReasonConditionRuleInvalid = "ConditionRuleInvalid"
	// ManifestReasonConditionRuleExpressionError (False; Unknown for Progressing):
	// an expression of the condition rule is invalid or failed; the message
	// contains the error.
	ManifestReasonConditionRuleExpressionError = "ConditionRuleExpressionError"
	// ManifestReasonConditionRuleInternalError (Unknown): the agent could not
	// evaluate the condition rule.
	ManifestReasonConditionRuleInternalError = "ConditionRuleInternalError"

	// ManifestReasonHealthUnknown (Progressing or Degraded Unknown): the object
	// could not be read, so its health is not known. For other values of these
	// conditions, if no rule sets them, the reason depends on the object's kind.
	ManifestReasonHealthUnknown = "HealthUnknown"
)
