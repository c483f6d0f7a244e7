// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains ResourceInterpreterCustomization of the Karmada API,
// which says with scripts what the objects of a kind mean.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=config.karmada.io
package v1alpha1
