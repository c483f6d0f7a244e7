// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains what the Karmada API has for objects that are sent
// to clusters already: a WorkloadRebalancer reschedules them.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=apps.karmada.io
package v1alpha1
