// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Binding is what ResourceBindings and ClusterResourceBindings have in common.
//
// +kubebuilder:object:generate=false
type Binding interface {
	metav1.Object
	runtime.Object
	// BindingSpec returns the spec, which may be changed.
	BindingSpec() *ResourceBindingSpec
	// BindingStatus returns the status, which may be changed.
	BindingStatus() *ResourceBindingStatus
}

// BindingSpec implements Binding.
func (b *ResourceBinding) BindingSpec() *ResourceBindingSpec { return &b.Spec }

// BindingStatus implements Binding.
func (b *ResourceBinding) BindingStatus() *ResourceBindingStatus { return &b.Status }

// BindingSpec implements Binding.
func (b *ClusterResourceBinding) BindingSpec() *ResourceBindingSpec { return &b.Spec }

// BindingStatus implements Binding.
func (b *ClusterResourceBinding) BindingStatus() *ResourceBindingStatus { return &b.Status }
