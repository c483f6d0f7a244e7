// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains the policies of the Karmada API: which objects of
// the hub go to which clusters (PropagationPolicy, ClusterPropagationPolicy),
// and what is different there (OverridePolicy, ClusterOverridePolicy).
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=policy.karmada.io
package v1alpha1
