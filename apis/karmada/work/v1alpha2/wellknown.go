// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

// Labels that identify bindings.
const (
	// LabelResourceBindingID is on a ResourceBinding and on its works. The value is
	// an ID that the binding keeps for life.
	LabelResourceBindingID = "resourcebinding.karmada.io/permanent-id"
	// LabelClusterResourceBindingID is the same of a ClusterResourceBinding.
	LabelClusterResourceBindingID = "clusterresourcebinding.karmada.io/permanent-id"
	// LabelManagedBy is on a binding that was not made for a policy; the value says
	// what made it.
	LabelManagedBy = "binding.karmada.io/managed-by"
	// LabelDependedByPrefix begins the labels of a binding that others depend on; a
	// hash of the other binding follows.
	LabelDependedByPrefix = "resourcebinding.karmada.io/depended-by-"
)

// Annotations that name the binding that a work is for.
const (
	// AnnotationResourceBindingNamespace has the namespace of the ResourceBinding.
	AnnotationResourceBindingNamespace = "resourcebinding.karmada.io/namespace"
	// AnnotationResourceBindingName has the name of the ResourceBinding.
	AnnotationResourceBindingName = "resourcebinding.karmada.io/name"
	// AnnotationClusterResourceBindingName has the name of the
	// ClusterResourceBinding.
	AnnotationClusterResourceBindingName = "clusterresourcebinding.karmada.io/name"
	// AnnotationDependencies on a binding has what its object depends on, as JSON.
	AnnotationDependencies = "resourcebinding.karmada.io/dependencies"
)

// Labels and annotations of the objects in the clusters.
const (
	// LabelManaged with the value "true" is on every object that was sent to a
	// cluster.
	LabelManaged = "karmada.io/managed"
	// LabelWorkID has the permanent ID of the work that sent it.
	LabelWorkID = "work.karmada.io/permanent-id"
	// AnnotationWorkNamespace has the namespace of the Work that sent it.
	AnnotationWorkNamespace = "work.karmada.io/namespace"
	// AnnotationWorkName has the name of the Work that sent it.
	AnnotationWorkName = "work.karmada.io/name"
	// AnnotationTemplateUID has the UID of the object on the hub.
	AnnotationTemplateUID = "resourcetemplate.karmada.io/uid"
	// AnnotationTemplateGeneration has the generation of the object on the hub.
	AnnotationTemplateGeneration = "resourcetemplate.karmada.io/generation"
	// AnnotationManagedLabels lists the keys of the labels that were sent.
	AnnotationManagedLabels = "resourcetemplate.karmada.io/managed-labels"
	// AnnotationManagedAnnotations lists the keys of the annotations that were sent.
	AnnotationManagedAnnotations = "resourcetemplate.karmada.io/managed-annotations"
)

// Finalizers of bindings.
const (
	// FinalizerResourceBinding keeps a ResourceBinding until its works are gone.
	FinalizerResourceBinding = "karmada.io/binding-controller"
	// FinalizerClusterResourceBinding keeps a ClusterResourceBinding until its works
	// are gone.
	FinalizerClusterResourceBinding = "karmada.io/cluster-resource-binding-controller"
	// FinalizerDependencies keeps a binding until what was sent along with it is no
	// more.
	FinalizerDependencies = "karmada.io/binding-dependencies-distributor"
)
