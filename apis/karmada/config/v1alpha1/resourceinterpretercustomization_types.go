// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceInterpreterCustomization defines with Lua scripts how the objects of a
// kind are interpreted: how many pods they ask for, whether they are healthy, what of their
// status counts. It takes precedence over what is known of the kind otherwise.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ric,categories=karmada-io
// +kubebuilder:printcolumn:name="TARGET-API-VERSION",type="string",JSONPath=".spec.target.apiVersion",description="The API version of the kind."
// +kubebuilder:printcolumn:name="TARGET-KIND",type="string",JSONPath=".spec.target.kind",description="The kind."
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type ResourceInterpreterCustomization struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines which kind is customized, and how.
	// +required
	Spec ResourceInterpreterCustomizationSpec `json:"spec"`
}

// ResourceInterpreterCustomizationList is a list of
// ResourceInterpreterCustomizations.
//
// +kubebuilder:object:root=true
type ResourceInterpreterCustomizationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the customizations.
	Items []ResourceInterpreterCustomization `json:"items"`
}

// ResourceInterpreterCustomizationSpec defines which kind is customized, and how.
type ResourceInterpreterCustomizationSpec struct {
	// target is the kind.
	// +required
	Target CustomizationTarget `json:"target"`

	// customizations are the scripts, one for each operation. Operations without one
	// are as they are without the customization.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	Customizations CustomizationRules `json:"customizations"`
}

// CustomizationTarget is a kind.
//
// +kubebuilder:validation:XValidation:rule="self.apiVersion.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z0-9]+$')",message="apiVersion is the group and the version of the kind, such as example.com/v1: kubectl api-resources lists them"
// +kubebuilder:validation:XValidation:rule="self.kind.matches('^[A-Za-z][A-Za-z0-9]*$')",message="kind is the name of one kind, such as Workload: kubectl api-resources lists them"
type CustomizationTarget struct {
	// apiVersion is the group and version of the kind.
	// +required
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`

	// kind is the name of the kind.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
}

// CustomizationRules are the scripts of a customization.
type CustomizationRules struct {
	// retention decides what of the object in the cluster stays as it is there when
	// the object is applied. It has function Retain(desiredObj, observedObj), which
	// returns the object to apply.
	// +optional
	Retention *LuaRule `json:"retention,omitempty"`

	// replicaResource finds out how many pods an object asks for and what each of them
	// needs. It has function GetReplicas(desiredObj), which returns both.
	// +optional
	ReplicaResource *LuaRule `json:"replicaResource,omitempty"`

	// componentResource does so for objects with pods of several kinds. It has function
	// GetComponents(desiredObj), which returns a list of components.
	// +optional
	ComponentResource *LuaRule `json:"componentResource,omitempty"`

	// replicaRevision changes how many pods an object asks for. It has function
	// ReviseReplica(desiredObj, desiredReplica), which returns the object.
	// +optional
	ReplicaRevision *LuaRule `json:"replicaRevision,omitempty"`

	// statusReflection says what of the status in the cluster is reported to the hub.
	// It has function ReflectStatus(observedObj), which returns a status.
	// +optional
	StatusReflection *LuaRule `json:"statusReflection,omitempty"`

	// statusAggregation sums up what the clusters report. It has function
	// AggregateStatus(desiredObj, statusItems), which returns the object with its
	// status.
	// +optional
	StatusAggregation *LuaRule `json:"statusAggregation,omitempty"`

	// healthInterpretation judges the object in the cluster. It has function
	// InterpretHealth(observedObj), which returns whether it is healthy.
	// +optional
	HealthInterpretation *LuaRule `json:"healthInterpretation,omitempty"`

	// dependencyInterpretation finds the objects that an object needs beside it. It has
	// function GetDependencies(desiredObj), which returns a list of references. Those of
	// all customizations of the kind count.
	// +optional
	DependencyInterpretation *LuaRule `json:"dependencyInterpretation,omitempty"`
}

// LuaRule is a script of an operation.
type LuaRule struct {
	// luaScript is the script in Lua 5.1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	LuaScript string `json:"luaScript"`
}
