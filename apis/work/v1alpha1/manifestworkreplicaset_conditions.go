// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of ManifestWorkReplicaSet.
const (
	// ConditionPlacementVerified reports whether the Placements choose members.
	ConditionPlacementVerified = "PlacementVerified"
	// ConditionPlacementRolledOut reports whether all chosen members have the
	// current template and have succeeded with it.
	ConditionPlacementRolledOut = "PlacementRolledOut"
	// ConditionManifestworkApplied reports whether the objects of all ManifestWorks
	// are available on their members.
	ConditionManifestworkApplied = "ManifestworkApplied"
)

// Reasons of the conditions of ManifestWorkReplicaSet.
const (
	// ReasonAsExpected (PlacementVerified=True, ManifestworkApplied=True).
	ReasonAsExpected = "AsExpected"
	// ReasonNotAsExpected (PlacementVerified=False): a rollout strategy has a
	// mistake; the message names the field. (ManifestworkApplied=False): there is no
	// ManifestWork yet, or one is not available or degraded; the message says which.
	ReasonNotAsExpected = "NotAsExpected"
	// ReasonPlacementDecisionNotFound (PlacementVerified=False): a Placement does
	// not exist.
	ReasonPlacementDecisionNotFound = "PlacementDecisionNotFound"
	// ReasonPlacementDecisionEmpty (PlacementVerified=False,
	// ManifestworkApplied=False): no member is chosen.
	ReasonPlacementDecisionEmpty = "PlacementDecisionEmpty"
	// ReasonProcessing (ManifestworkApplied=False): a ManifestWork is progressing,
	// and none is degraded.
	ReasonProcessing = "Processing"
	// ReasonProgressing (PlacementRolledOut=False): the rollout goes on, waits, or
	// has stopped; the message says which.
	ReasonProgressing = "Progressing"
	// ReasonComplete (PlacementRolledOut=True).
	ReasonComplete = "Complete"
	// ReasonInvalidManifestWorkName (ManifestworkApplied=False): namespace and name
	// together are too long for the label of the ManifestWorks.
	ReasonInvalidManifestWorkName = "InvalidManifestWorkName"
	// ReasonNamespaceFull (ManifestworkApplied=False): the works of the bindings and replica sets of
	// the namespace take up all that they may on the hub.
	ReasonNamespaceFull = "NamespaceFull"
	// ReasonHubFull (ManifestworkApplied=False): the works of all namespaces without a limit of their
	// own take up so much that this one may have no more now.
	ReasonHubFull = "HubFull"
	// ReasonNamespaceThrottled (ManifestworkApplied=False): so much was written to the works of the
	// namespace that the rest has to wait for its turn.
	ReasonNamespaceThrottled = "NamespaceThrottled"
)

// FinalizerManifestWorkCleanup keeps a ManifestWorkReplicaSet until its
// ManifestWorks are deleted.
const FinalizerManifestWorkCleanup = "work.open-cluster-management.io/manifest-work-cleanup"
