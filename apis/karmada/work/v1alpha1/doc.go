// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains Karmada's Work, as which the hub's aggregated API
// server shows the ManifestWorks that bindings make. It is not stored, so there
// is no CustomResourceDefinition for it.
//
// +kubebuilder:object:generate=true
// +kubebuilder:skip
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.karmada.work.v1alpha1
package v1alpha1
