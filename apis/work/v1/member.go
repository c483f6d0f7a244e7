// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

const (
	// LabelManaged with the value "true" is on every object that an agent applied
	// to the member, so that the agent can watch these and no others.
	LabelManaged = "work.open-cluster-management.io/managed"

	// AnnotationResourceTypes on an AppliedManifestWork has the types of its
	// objects, sorted, as <group>/<version>/<resource> with commas between. A type
	// is added before the first object of it is applied, so that a restarted agent
	// knows where to look.
	AnnotationResourceTypes = "work.open-cluster-management.io/resource-types"

	// AnnotationDeleteOption on an AppliedManifestWork has spec.deleteOption of
	// its ManifestWork, as JSON, in case the latter vanishes without being
	// deleted.
	AnnotationDeleteOption = "work.open-cluster-management.io/delete-option"

	// AnnotationFirstVersion on an AppliedManifestWork says which ManifestWork it is
	// for and since when: <UID>/<resourceVersion>, the latter as it was when the agent
	// first applied that ManifestWork. A hub that was restored from a backup may have
	// forgotten one of a later version.
	AnnotationFirstVersion = "fleet.capstan.io/first-version"

	// AnnotationClaimedBy on an AppliedManifestWork has the ID of an agent that
	// wants to take it over from the one in spec.agentID.
	AnnotationClaimedBy = "work.open-cluster-management.io/claimed-by"
	// AnnotationClaimDenied has the same ID if the agent in spec.agentID is alive
	// and keeps the record.
	AnnotationClaimDenied = "work.open-cluster-management.io/claim-denied"

	// AnnotationReportHealth with the value "true" on a ManifestWork makes the
	// agent report the health of its objects in the conditions Progressing and
	// Degraded, unless condition rules set these.
	AnnotationReportHealth = "work.open-cluster-management.io/report-health"

	// AnnotationSuspendDispatching with the value "true" on a ManifestWork suspends
	// it: the agent writes nothing of it to the cluster until it is gone. What is
	// there stays, and a ManifestWork that is deleted is removed all the same.
	AnnotationSuspendDispatching = "fleet.capstan.io/suspend-dispatching"

	// AnnotationStrictFields with the value "true" on an object in a manifest makes the agent
	// refuse it if it has fields that the API server of the member does not know. Otherwise
	// they are left out.
	AnnotationStrictFields = "fleet.capstan.io/strict-fields"

	// AnnotationRecreate with the value "true" on an object in a manifest lets the agent
	// delete the object in the cluster, and make it again, if the manifest changes a field
	// that cannot change, whoever made the object.
	AnnotationRecreate = "fleet.capstan.io/recreate"

	// AnnotationImagePullSecrets on a ServiceAccount of a member has the names of the
	// imagePullSecrets that its manifest had when it was applied last, sorted, with commas
	// between. All others in the list are the member's, and stay.
	AnnotationImagePullSecrets = "fleet.capstan.io/image-pull-secrets"

	// AnnotationAdopted with the value "true" is on a Namespace of a member that was
	// there before the work of a binding that has it. It is not deleted with that.
	AnnotationAdopted = "fleet.capstan.io/adopted"

	// KindAppliedManifestWork is the kind that owns the applied objects.
	KindAppliedManifestWork = "AppliedManifestWork"
)
