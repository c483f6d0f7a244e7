// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of PropagationRollout and ClusterPropagationRollout.
const (
	// PropagationRolloutConditionAccepted reports whether the rollout is in effect.
	PropagationRolloutConditionAccepted = "Accepted"
	// PropagationRolloutConditionProgressing reports whether clusters are being
	// changed, or are about to be.
	PropagationRolloutConditionProgressing = "Progressing"
	// PropagationRolloutConditionComplete reports whether all clusters have the
	// latest change and are healthy with it.
	PropagationRolloutConditionComplete = "Complete"
)

// Reasons of Accepted.
const (
	// PropagationRolloutReasonAccepted (True): changes reach the clusters as it says.
	PropagationRolloutReasonAccepted = "Accepted"
	// PropagationRolloutReasonRevisionsFull (True): changes reach the clusters as it says,
	// but the PropagationRevisions of the namespace have no room for some of them, which
	// cannot be brought back.
	PropagationRolloutReasonRevisionsFull = "RevisionsFull"
	// PropagationRolloutReasonTargetNotFound (False): there is no policy or object of
	// that name, or no policy sends the object.
	PropagationRolloutReasonTargetNotFound = "TargetNotFound"
	// PropagationRolloutReasonConflict (False): an older rollout has the same policy
	// or object.
	PropagationRolloutReasonConflict = "Conflict"
	// PropagationRolloutReasonInvalid (False): a selector of a group has a mistake,
	// which the message names.
	PropagationRolloutReasonInvalid = "Invalid"
)

// Reasons of Progressing and Complete.
const (
	// PropagationRolloutReasonComplete (Complete True, Progressing False): all
	// clusters have the latest change and are healthy, but for those that may fail.
	PropagationRolloutReasonComplete = "AllHealthy"
	// PropagationRolloutReasonRollingOut (Complete False, Progressing True): clusters
	// get the change, or are awaited to be healthy with it.
	PropagationRolloutReasonRollingOut = "RollingOut"
	// PropagationRolloutReasonUndoing (Complete False, Progressing True): clusters
	// get back what they had.
	PropagationRolloutReasonUndoing = "Undoing"
	// PropagationRolloutReasonUndone (both False): all clusters have again what they
	// had before the change, which waits to be changed.
	PropagationRolloutReasonUndone = "Undone"
	// PropagationRolloutReasonPaused (both False): spec.paused keeps the change from
	// other clusters, or spec.undo does because it can take nothing back.
	PropagationRolloutReasonPaused = "Paused"
	// PropagationRolloutReasonTooManyFailures (both False): more clusters have failed
	// than maxFailures allows.
	PropagationRolloutReasonTooManyFailures = "TooManyFailures"
	// PropagationRolloutReasonStarting (both False): the hub has not looked at all
	// objects yet since its controller started.
	PropagationRolloutReasonStarting = "Starting"
	// PropagationRolloutReasonNotAccepted (both False): the rollout is not in effect;
	// condition Accepted says why.
	PropagationRolloutReasonNotAccepted = "NotAccepted"
)
