// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OverridePolicy changes objects of its namespace on their way to clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=op,categories=karmada-io
type OverridePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines which objects are changed, and how.
	// +required
	Spec OverrideSpec `json:"spec"`
}

// OverridePolicyList is a list of OverridePolicies.
//
// +kubebuilder:object:root=true
type OverridePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the policies.
	Items []OverridePolicy `json:"items"`
}

// ClusterOverridePolicy changes objects of all namespaces, and objects without
// one, on their way to clusters. It is applied before any OverridePolicy.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cop,categories=karmada-io
type ClusterOverridePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines which objects are changed, and how.
	// +required
	Spec OverrideSpec `json:"spec"`
}

// ClusterOverridePolicyList is a list of ClusterOverridePolicies.
//
// +kubebuilder:object:root=true
type ClusterOverridePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the policies.
	Items []ClusterOverridePolicy `json:"items"`
}

// OverrideSpec defines which objects are changed, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.overrideRules) || size(self.overrideRules) == 0 || !has(self.targetCluster)",message="targetCluster and overrideRules exclude each other: move targetCluster into a rule"
// +kubebuilder:validation:XValidation:rule="!has(self.overrideRules) || size(self.overrideRules) == 0 || !has(self.overriders) || !(has(self.overriders.plaintext) || has(self.overriders.imageOverrider) || has(self.overriders.commandOverrider) || has(self.overriders.argsOverrider) || has(self.overriders.labelsOverrider) || has(self.overriders.annotationsOverrider) || has(self.overriders.fieldOverrider))",message="overriders and overrideRules exclude each other: move overriders into a rule"
type OverrideSpec struct {
	// resourceSelectors select the objects: those that one of them matches. Default:
	// all objects of the namespace, and for policies without one all objects.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	ResourceSelectors []ResourceSelector `json:"resourceSelectors,omitempty"`

	// overrideRules are the changes by cluster, applied in their order.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	OverrideRules []RuleWithCluster `json:"overrideRules,omitempty"`

	// targetCluster selects the clusters for overriders. Deprecated: use
	// overrideRules.
	// +optional
	TargetCluster *ClusterAffinity `json:"targetCluster,omitempty"`

	// overriders lists the changes to apply. Deprecated: use overrideRules.
	// +optional
	Overriders Overriders `json:"overriders,omitempty"`
}

// RuleWithCluster defines what is changed in some clusters.
type RuleWithCluster struct {
	// targetCluster selects the clusters. Default: all.
	// +optional
	TargetCluster *ClusterAffinity `json:"targetCluster,omitempty"`

	// overriders lists the changes to apply.
	// +required
	Overriders Overriders `json:"overriders"`
}

// Overriders are changes of an object. They are applied in the order: image,
// command, args, labels, annotations, field, plaintext.
type Overriders struct {
	// plaintext lists changes by JSON pointer.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	Plaintext []PlaintextOverrider `json:"plaintext,omitempty"`

	// imageOverrider lists changes to images.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	ImageOverrider []ImageOverrider `json:"imageOverrider,omitempty"`

	// commandOverrider lists changes to the commands of containers.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	CommandOverrider []CommandArgsOverrider `json:"commandOverrider,omitempty"`

	// argsOverrider lists changes to the arguments of containers.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	ArgsOverrider []CommandArgsOverrider `json:"argsOverrider,omitempty"`

	// labelsOverrider lists changes to the object's labels.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	LabelsOverrider []LabelAnnotationOverrider `json:"labelsOverrider,omitempty"`

	// annotationsOverrider lists changes to the object's annotations.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	AnnotationsOverrider []LabelAnnotationOverrider `json:"annotationsOverrider,omitempty"`

	// fieldOverrider lists changes within a string that contains JSON or YAML.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	FieldOverrider []FieldOverrider `json:"fieldOverrider,omitempty"`
}

// OverriderOperator is what is done.
//
// +kubebuilder:validation:Enum=add;remove;replace
type OverriderOperator string

const (
	// OverriderOpAdd adds a value.
	OverriderOpAdd OverriderOperator = "add"
	// OverriderOpRemove removes a value.
	OverriderOpRemove OverriderOperator = "remove"
	// OverriderOpReplace replaces a value.
	OverriderOpReplace OverriderOperator = "replace"
)

// PlaintextOverrider is a change by JSON pointer (RFC 6901), with the meaning
// that RFC 6902 gives the operator.
type PlaintextOverrider struct {
	// path is the JSON pointer.
	// +required
	Path string `json:"path"`

	// operator is add, remove or replace.
	// +required
	Operator OverriderOperator `json:"operator"`

	// value is any JSON value. It is required unless operator is remove.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value JSON `json:"value,omitempty,omitzero"`
}

// ImageComponent is a part of an image's name.
//
// +kubebuilder:validation:Enum=Registry;Repository;Tag
type ImageComponent string

const (
	// ImageRegistry is the registry, such as quay.io.
	ImageRegistry ImageComponent = "Registry"
	// ImageRepository is the repository, such as library/nginx.
	ImageRepository ImageComponent = "Repository"
	// ImageTag is the tag or the digest.
	ImageTag ImageComponent = "Tag"
)

// ImageOverrider is a change to images.
type ImageOverrider struct {
	// predicate selects one image. Default: those of all containers of the usual
	// workloads.
	// +optional
	Predicate *ImagePredicate `json:"predicate,omitempty"`

	// component is which part of the image's name is changed: Registry, Repository
	// or Tag. Tag is also a digest.
	// +required
	Component ImageComponent `json:"component"`

	// operator is add, which appends to the part, remove or replace.
	// +required
	Operator OverriderOperator `json:"operator"`

	// value is the new value. It is required unless operator is remove.
	// +optional
	Value string `json:"value,omitempty"`
}

// ImagePredicate selects an image.
type ImagePredicate struct {
	// path is the JSON pointer to the image.
	// +required
	Path string `json:"path"`
}

// ListOverriderOperator is what is done with a list.
//
// +kubebuilder:validation:Enum=add;remove
type ListOverriderOperator string

const (
	// ListOverriderOpAdd appends the values.
	ListOverriderOpAdd ListOverriderOperator = "add"
	// ListOverriderOpRemove removes the values.
	ListOverriderOpRemove ListOverriderOperator = "remove"
)

// CommandArgsOverrider is a change of the command or the arguments of a
// container.
type CommandArgsOverrider struct {
	// containerName is the name of the container.
	// +required
	ContainerName string `json:"containerName"`

	// operator is add, which appends, or remove.
	// +required
	Operator ListOverriderOperator `json:"operator"`

	// value lists the arguments.
	// +optional
	Value []string `json:"value,omitempty"`
}

// LabelAnnotationOverrider is a change of labels or annotations.
type LabelAnnotationOverrider struct {
	// operator is add, remove or replace. The latter two have no effect on keys that
	// the object does not have.
	// +required
	Operator OverriderOperator `json:"operator"`

	// value has the keys and values.
	// +optional
	Value map[string]string `json:"value,omitempty"`
}

// FieldOverrider is a change within a string that has JSON or YAML.
type FieldOverrider struct {
	// fieldPath is the JSON pointer to the string.
	// +required
	FieldPath string `json:"fieldPath"`

	// json lists changes to a string that contains JSON. It excludes yaml.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	JSON []JSONPatchOperation `json:"json,omitempty"`

	// yaml lists changes to a string that contains YAML. It excludes json.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	YAML []JSONPatchOperation `json:"yaml,omitempty"`
}

// JSONPatchOperation is a change within JSON or YAML.
type JSONPatchOperation struct {
	// subPath is the JSON pointer within the string.
	// +required
	SubPath string `json:"subPath"`

	// operator is add, remove or replace.
	// +required
	Operator OverriderOperator `json:"operator"`

	// value is any value. It is required unless operator is remove.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value JSON `json:"value,omitempty,omitzero"`
}
