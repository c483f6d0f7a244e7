// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package proof

// Table is the page that names the tests which prove the fields and reasons of a kind.
type Table struct {
	Kind, Page string
	// Folder has the types of the kind.
	Folder string
	// Reasons is how the names of the constants begin, in Folder, that are the
	// reasons of the kind; empty if it has none.
	Reasons string
	// Agents is how the names of constants of apis/fleet/v1alpha1 begin that agents report
	// as reasons, which the hub shows in the kind.
	Agents string
	// Defined is of a kind with a CustomResourceDefinition.
	Defined bool
	// Embedded is a field whose own fields have no rows: they are those of a kind
	// with a table, or of Kubernetes.
	Embedded string
	// Fields is the page of docs/spec that lists the fields, for a kind without a CRD
	// or with fields of Kubernetes' own types, which the page does not go into.
	Fields string
}

// Tables returns all tables.
func Tables() []Table {
	return []Table{
		{Kind: "ManifestWork", Defined: true, Page: "manifestwork-proof.md", Folder: "apis/work/v1"},
		{Kind: "Placement", Defined: true, Page: "placement-proof.md", Folder: "apis/cluster/v1beta1", Reasons: "PlacementReason"},
		{
			Kind: "ManifestWorkReplicaSet", Defined: true, Page: "manifestworkreplicaset-proof.md", Folder: "apis/work/v1alpha1", Reasons: "Reason",
			Embedded: "spec.manifestWorkTemplate",
		},
		{
			Kind: "Cluster", Page: "cluster-proof.md", Folder: "apis/karmada/cluster/v1alpha1", Reasons: "ClusterReason",
			Agents: "ClusterConnectionReason",
			Fields: "karmada-cluster/cluster.md",
		},
		{
			Kind: "ControlPlane", Defined: true, Page: "controlplane-proof.md", Folder: "apis/fleet/v1alpha1", Reasons: "ControlPlaneReason",
			Fields: "fleet/controlplane.md", Embedded: "spec.placement.affinity",
		},
		{
			Kind: "PropagationPolicy", Defined: true, Page: "propagation-proof.md", Folder: "apis/karmada/policy/v1alpha1", Fields: "policy/propagationpolicy.md",
		},
		{
			Kind: "ResourceBinding", Defined: true, Page: "binding-proof.md", Folder: "apis/karmada/work/v1alpha2", Fields: "work/resourcebinding.md",
			Embedded: "spec.placement",
		},
		{
			Kind: "OverridePolicy", Defined: true, Page: "override-proof.md", Folder: "apis/karmada/policy/v1alpha1", Fields: "policy/overridepolicy.md",
			Embedded: "spec.overriders",
		},
		{
			Kind: "ResourceInterpreterCustomization", Defined: true, Page: "customization-proof.md", Folder: "apis/karmada/config/v1alpha1",
			Fields: "config/resourceinterpretercustomization.md",
		},
		{
			Kind: "ResourceInterpreterWebhookConfiguration", Defined: true, Page: "interpreterwebhook-proof.md", Folder: "apis/karmada/config/v1alpha1",
			Fields: "config/resourceinterpreterwebhookconfiguration.md",
		},
		{
			Kind: "Work", Page: "work-proof.md", Folder: "apis/karmada/work/v1alpha1", Reasons: "WorkReason",
			Fields: "karmada-work/work.md",
		},
	}
}
