// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Finalizers.
const (
	// FinalizerManifestWorkCleanup keeps a ManifestWork until the agent has
	// removed its objects from the member.
	FinalizerManifestWorkCleanup = "cluster.open-cluster-management.io/manifest-work-cleanup"
	// FinalizerAppliedManifestWorkCleanup keeps an AppliedManifestWork until the
	// agent has removed its objects.
	FinalizerAppliedManifestWorkCleanup = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"
)

// Annotations.
const (
	// AnnotationConfigSpecHash on an applied object has the hash of its manifest,
	// by which the agent sees that the manifest changed (ignoreFields with
	// condition OnSpokeChange). Add-ons have it on their ManifestWorks, for the
	// configuration that these were made from.
	AnnotationConfigSpecHash = "open-cluster-management.io/config-spec-hash"
	// AnnotationObjectHash on an applied object has the hash of its manifest as
	// earlier agents left it.
	AnnotationObjectHash = "open-cluster-management.io/object-hash"
)

// Labels on the ManifestWorks that a ManifestWorkReplicaSet makes.
const (
	// LabelManifestWorkReplicaSet has <namespace>.<name> of the replica set.
	LabelManifestWorkReplicaSet = "work.open-cluster-management.io/manifestworkreplicaset"
	// LabelPlacementName has the name of the placement that chose the member.
	LabelPlacementName = "work.open-cluster-management.io/placementname"
)

const (
	// DefaultFieldManager is the name that the agent owns fields of applied
	// objects under.
	DefaultFieldManager = "work-agent"

	// ManifestsSizeMax is the size in bytes that the manifests of one ManifestWork
	// may have together, unless the webhook is told another one.
	ManifestsSizeMax = 500 * 1024

	// ManifestWorkNameLengthMax is the number of characters that the name of a
	// ManifestWork may have: the name of the AppliedManifestWork has to have room
	// for the hub's hash (64), a hyphen and this in its 253 characters.
	ManifestWorkNameLengthMax = 188

	// ExecuteAsVerb on manifestworks is the permission on the hub to name an
	// executor; the name in the request is that of its user on the member,
	// system:serviceaccount:<namespace>:<name>.
	ExecuteAsVerb = "execute-as"

	// JSONRawSizeMax is the size in bytes of a reported field of type JsonRaw.
	JSONRawSizeMax = 1024
)
