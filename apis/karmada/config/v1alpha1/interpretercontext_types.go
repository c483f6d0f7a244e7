// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// InterpreterContextKind is the kind of what is sent to webhooks and what they
// answer.
const InterpreterContextKind = "ResourceInterpreterContext"

// ResourceInterpreterContext is what a webhook is asked, and what it answers. It is
// not stored.
//
// +kubebuilder:object:root=true
type ResourceInterpreterContext struct {
	metav1.TypeMeta `json:",inline"`

	// request is what the webhook is asked.
	// +optional
	Request *ResourceInterpreterRequest `json:"request,omitempty"`

	// response is what it answers.
	// +optional
	Response *ResourceInterpreterResponse `json:"response,omitempty"`
}

// ResourceInterpreterRequest is what a webhook is asked.
type ResourceInterpreterRequest struct {
	// uid identifies the request. The answer has the same.
	// +required
	UID types.UID `json:"uid"`

	// kind is the kind of the object.
	// +required
	Kind metav1.GroupVersionKind `json:"kind"`

	// name is the name of the object.
	// +required
	Name string `json:"name"`

	// namespace is its namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// operation is what is asked for.
	// +required
	Operation InterpreterOperation `json:"operation"`

	// object is the object: the template of the hub, what is to be applied in the
	// cluster (Retain), or what is there (InterpretStatus, InterpretHealth).
	// +optional
	Object runtime.RawExtension `json:"object,omitempty"`

	// observedObject is the object that is in the cluster. Only Retain has it.
	// +optional
	ObservedObject *runtime.RawExtension `json:"observedObject,omitempty"`

	// replicas is the number of pods that is wanted. Only ReviseReplica has it.
	// +optional
	DesiredReplicas *int32 `json:"replicas,omitempty"`

	// aggregatedStatus is what the clusters report. Only AggregateStatus has it.
	// +optional
	AggregatedStatus []workv1alpha2.AggregatedStatusItem `json:"aggregatedStatus,omitempty"`
}

// ResourceInterpreterResponse is what a webhook answers.
type ResourceInterpreterResponse struct {
	// uid is that of the request.
	// +required
	UID types.UID `json:"uid"`

	// successful reports whether there is an answer.
	// +required
	Successful bool `json:"successful"`

	// status says why there is none.
	// +optional
	Status *RequestStatus `json:"status,omitempty"`

	// patch changes the object of the request: of Retain, ReviseReplica and
	// AggregateStatus. Without one it stays as it is.
	// +optional
	Patch []byte `json:"patch,omitempty"`

	// patchType is how the patch is written. Only JSONPatch (RFC 6902) is known.
	// +optional
	PatchType *PatchType `json:"patchType,omitempty"`

	// replicaRequirements are what each pod needs: of InterpretReplica.
	// +optional
	ReplicaRequirements *workv1alpha2.ReplicaRequirements `json:"replicaRequirements,omitempty"`

	// replicas is the number of pods that the object asks for: of InterpretReplica.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// components are the parts with pods of their own: of InterpretComponent.
	// +optional
	Components []workv1alpha2.Component `json:"components,omitempty"`

	// dependencies are the objects that the object needs: of InterpretDependency.
	// +optional
	Dependencies []DependentObjectReference `json:"dependencies,omitempty"`

	// rawStatus is the status that is reported: of InterpretStatus.
	// +optional
	RawStatus *runtime.RawExtension `json:"rawStatus,omitempty"`

	// healthy reports whether the object is healthy: of InterpretHealth.
	// +optional
	Healthy *bool `json:"healthy,omitempty"`
}

// RequestStatus is why a webhook has no answer.
type RequestStatus struct {
	// message explains it to people.
	// +optional
	Message string `json:"message,omitempty"`

	// code is an HTTP status code.
	// +optional
	Code int32 `json:"code,omitempty"`
}

// PatchType is how a patch is written.
type PatchType string

// PatchTypeJSONPatch is the way of RFC 6902.
const PatchTypeJSONPatch PatchType = "JSONPatch"

// DependentObjectReference is an object that another needs, or several that a
// selector selects.
type DependentObjectReference struct {
	// apiVersion is the group and version of the kind.
	// +required
	APIVersion string `json:"apiVersion"`

	// kind is the name of the kind.
	// +required
	Kind string `json:"kind"`

	// namespace is the namespace of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object. Either it or labelSelector is set.
	// +optional
	Name string `json:"name,omitempty"`

	// labelSelector selects objects.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}
