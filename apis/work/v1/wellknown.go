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
	// so that the agent detects changes of the manifest (ignoreFields with
	// condition OnSpokeChange). On ManifestWorks of add-ons it is the hash of the
	// configuration that they were rendered from.
	AnnotationConfigSpecHash = "open-cluster-management.io/config-spec-hash"
	// AnnotationObjectHash on an applied object has the hash of its manifest, as
	// older agents wrote it.
	AnnotationObjectHash = "open-cluster-management.io/object-hash"
)

// Labels on the ManifestWorks that a ManifestWorkReplicaSet creates.
const (
	// LabelManifestWorkReplicaSet has <namespace>.<name> of the replica set.
	LabelManifestWorkReplicaSet = "work.open-cluster-management.io/manifestworkreplicaset"
	// LabelPlacementName has the name of the placement that selected the member.
	LabelPlacementName = "work.open-cluster-management.io/placementname"
)

const (
	// DefaultFieldManager is the field manager of the agent for applied objects.
	DefaultFieldManager = "work-agent"

	// ManifestsSizeMax is the default limit in bytes for all manifests of one
	// ManifestWork; the webhook can be configured with another one.
	ManifestsSizeMax = 500 * 1024

	// ManifestWorkNameLengthMax is the longest name of a ManifestWork: the name of
	// the AppliedManifestWork has to fit the hub's hash (64), a hyphen and this in
	// its 253 characters.
	ManifestWorkNameLengthMax = 188

	// ExecuteAsVerb on manifestworks is the permission on the hub to name an
	// executor; the name in the request is that of its user on the member,
	// system:serviceaccount:<namespace>:<name>.
	ExecuteAsVerb = "execute-as"

	// JSONRawSizeMax is the size in bytes of a field of type JsonRaw that a feedback
	// rule reports.
	JSONRawSizeMax = 1024

	// StatusSizeMax is the size in bytes of the status of an object that is reported
	// for a work of a binding.
	StatusSizeMax = 256 << 10
)
