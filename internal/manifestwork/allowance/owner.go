// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// WorkOwner is whose works count together. The zero value is for works that are not counted: those of
// ClusterResourceBindings, and of namespaces that go to all clusters, which are an administrator's. They have a pace
// and no limit.
type WorkOwner struct {
	// Namespace is that of the bindings and ManifestWorkReplicaSets.
	Namespace string
	// ClusterWide says that it is ClusterPropagationPolicies which send the objects of the
	// namespace: they are an administrator's, and do not share what its users may have.
	ClusterWide bool
}

// OwnersIn returns all who may have works of a namespace.
func OwnersIn(namespace string) []WorkOwner {
	return []WorkOwner{{Namespace: namespace}, {Namespace: namespace, ClusterWide: true}}
}

// isUncounted reports whether the works of an owner have no limit.
func (o WorkOwner) isUncounted() bool { return o.Namespace == "" }

// limitAnnotation returns the annotation of the Namespace that sets the owner's own limit.
func (o WorkOwner) limitAnnotation() string {
	if o.ClusterWide {
		return fleetv1alpha1.AnnotationClusterPolicyWorkBytesMax
	}
	return fleetv1alpha1.AnnotationWorkBytesMax
}

// OwnerOf returns whose a work is, by its ResourceBinding or its ManifestWorkReplicaSet, and the zero
// value for the works of all others. The works of a namespace have the mark of a
// ClusterPropagationPolicy only if the hub has found that it sends their object.
func OwnerOf(work metav1.Object) WorkOwner {
	if isOfBinding(work) {
		namespace := work.GetAnnotations()[workv1alpha2.AnnotationResourceBindingNamespace]
		return WorkOwner{Namespace: namespace, ClusterWide: namespace != "" && work.GetLabels()[policyv1alpha1.LabelClusterPropagationPolicyID] != ""}
	}
	namespace, name, _ := strings.Cut(work.GetLabels()[workv1.LabelManifestWorkReplicaSet], ".")
	if name == "" || !strings.HasPrefix(work.GetName(), name+"-") {
		return WorkOwner{} // an agent may label a work, but cannot choose its name
	}
	return WorkOwner{Namespace: namespace}
}
