// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Policy is what PropagationPolicies and ClusterPropagationPolicies have in
// common.
//
// +kubebuilder:object:generate=false
type Policy interface {
	metav1.Object
	runtime.Object
	// PropagationSpec returns the spec, which may be changed.
	PropagationSpec() *PropagationSpec
}

// PropagationSpec implements Policy.
func (p *PropagationPolicy) PropagationSpec() *PropagationSpec { return &p.Spec }

// PropagationSpec implements Policy.
func (p *ClusterPropagationPolicy) PropagationSpec() *PropagationSpec { return &p.Spec }
