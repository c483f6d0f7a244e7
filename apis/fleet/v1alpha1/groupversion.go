// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the kinds in this package.
const GroupName = "fleet.capstan.io"

// GroupVersion is the API group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// SchemeGroupVersion is GroupVersion under the name that generated clients use.
var SchemeGroupVersion = GroupVersion

// AddToScheme makes the kinds of this package known to a scheme. It never
// fails for a scheme that does not know other types under the same names.
func AddToScheme(scheme *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(addKnownTypes)
	return builder.AddToScheme(scheme)
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ClusterConnection{},
		&ClusterConnectionList{},
		&ClusterPropagationRollout{},
		&ClusterPropagationRolloutList{},
		&ControlPlane{},
		&ControlPlaneList{},
		&PropagationRevision{},
		&PropagationRevisionList{},
		&PropagationRollout{},
		&PropagationRolloutList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
