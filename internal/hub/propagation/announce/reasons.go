// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

// Reasons of events on the object and its binding, which programs written for
// Karmada compare.
const (
	ReasonScheduleBindingSucceed      = "ScheduleBindingSucceed"
	ReasonScheduleBindingFailed       = "ScheduleBindingFailed"
	ReasonSyncWorkSucceed             = "SyncWorkSucceed"
	ReasonSyncWorkFailed              = "SyncWorkFailed"
	ReasonCleanupWorkFailed           = "CleanupWorkFailed"
	ReasonAggregateStatusSucceed      = "AggregateStatusSucceed"
	ReasonApplyOverridePolicySucceed  = "ApplyOverridePolicySucceed"
	ReasonApplyOverridePolicyFailed   = "ApplyOverridePolicyFailed"
	ReasonGetReplicasSucceed          = "GetReplicasSucceed"
	ReasonGetComponentsSucceed        = "GetComponentsSucceed"
	ReasonGetDependenciesSucceed      = "GetDependenciesSucceed"
	ReasonGetDependenciesFailed       = "GetDependenciesFailed"
	ReasonSyncToDependenciesSucceed   = "SyncScheduleResultToDependenciesSucceed"
	ReasonSyncToDependenciesFailed    = "SyncScheduleResultToDependenciesFailed"
	ReasonDependencyPolicyConflict    = "DependencyPolicyConflict"
	ReasonCreateExecutionSpaceSucceed = "CreateExecutionSpaceSucceed"
	ReasonCreateExecutionSpaceFailed  = "CreateExecutionSpaceFailed"
	ReasonRemoveExecutionSpaceSucceed = "RemoveExecutionSpaceSucceed"
	ReasonRemoveExecutionSpaceFailed  = "RemoveExecutionSpaceFailed"
)

// Reasons of events on Works.
const (
	ReasonWorkDispatching        = "WorkDispatching"
	ReasonSyncSucceed            = "SyncSucceed"
	ReasonSyncFailed             = "SyncFailed"
	ReasonReflectStatusSucceed   = "ReflectStatusSucceed"
	ReasonReflectStatusFailed    = "ReflectStatusFailed"
	ReasonInterpretHealthSucceed = "InterpretHealthSucceed"
	ReasonInterpretHealthFailed  = "InterpretHealthFailed"
)

// Notes that programs compare word by word.
const (
	noteDispatching = "Work is being dispatched to member clusters."
	noteSuspended   = "Work dispatching is in a suspended state."
)
