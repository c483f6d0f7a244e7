// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels by which a PropagationPolicy and what it propagates know each other.
// The value is an ID that the policy keeps for life.
const (
	// LabelPropagationPolicyID is on a PropagationPolicy, and on the objects,
	// bindings and works that it claims.
	LabelPropagationPolicyID = "propagationpolicy.karmada.io/permanent-id"
	// LabelClusterPropagationPolicyID is the same of a ClusterPropagationPolicy.
	LabelClusterPropagationPolicyID = "clusterpropagationpolicy.karmada.io/permanent-id"
)

// Annotations that name the policy that claims an object.
const (
	// AnnotationPropagationPolicyNamespace has the namespace of the PropagationPolicy.
	AnnotationPropagationPolicyNamespace = "propagationpolicy.karmada.io/namespace"
	// AnnotationPropagationPolicyName has the name of the PropagationPolicy.
	AnnotationPropagationPolicyName = "propagationpolicy.karmada.io/name"
	// AnnotationClusterPropagationPolicyName has the name of the
	// ClusterPropagationPolicy.
	AnnotationClusterPropagationPolicyName = "clusterpropagationpolicy.karmada.io/name"
)

// Finalizers of policies: while they are there, the objects that the policy
// claims are let go.
const (
	// FinalizerPropagationPolicy is on every PropagationPolicy.
	FinalizerPropagationPolicy = "karmada.io/propagation-policy-controller"
	// FinalizerClusterPropagationPolicy is on every ClusterPropagationPolicy.
	FinalizerClusterPropagationPolicy = "karmada.io/cluster-propagation-policy-controller"
)

// Annotations of bindings and works that record what was applied.
const (
	// AnnotationAppliedPlacement on a binding has the placement, as JSON, that its
	// clusters were chosen by.
	AnnotationAppliedPlacement = "policy.karmada.io/applied-placement"
	// AnnotationAppliedOverrides on a work has the OverridePolicies that were applied
	// and what each changed, as JSON.
	AnnotationAppliedOverrides = "policy.karmada.io/applied-overrides"
	// AnnotationAppliedClusterOverrides is the same for ClusterOverridePolicies.
	AnnotationAppliedClusterOverrides = "policy.karmada.io/applied-cluster-overrides"
)

// Labels and annotations that users put on the objects of the hub.
const (
	// LabelDeletionProtected with the value Always on an object of the hub protects
	// it from being deleted.
	LabelDeletionProtected = "resourcetemplate.karmada.io/deletion-protected"
	// DeletionProtectionAlways is the value of LabelDeletionProtected.
	DeletionProtectionAlways = "Always"
	// LabelRetainReplicas with the value "true" leaves spec.replicas to the clusters,
	// where a HorizontalPodAutoscaler may set it.
	LabelRetainReplicas = "resourcetemplate.karmada.io/retain-replicas"
	// LabelSkipAutoPropagation with the value "true" on a namespace keeps it from
	// being created on clusters that need nothing of it.
	LabelSkipAutoPropagation = "namespace.karmada.io/skip-auto-propagation"
	// AnnotationConflictResolution on an object of the hub decides what happens if a
	// cluster has an object of its name already: overwrite or abort.
	AnnotationConflictResolution = "work.karmada.io/conflict-resolution"
)

// Values of AnnotationConflictResolution.
const (
	// ConflictResolutionOverwrite takes the object over.
	ConflictResolutionOverwrite = "overwrite"
	// ConflictResolutionAbort leaves the object alone.
	ConflictResolutionAbort = "abort"
)

// DefaultScheduler is the scheduler that chooses clusters unless a policy names
// another one.
const DefaultScheduler = "default-scheduler"
