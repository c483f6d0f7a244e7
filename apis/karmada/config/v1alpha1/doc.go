// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains ResourceInterpreterCustomization and
// ResourceInterpreterWebhookConfiguration of the Karmada API, which say with
// scripts and by webhooks what the objects of a kind mean, and
// ResourceInterpreterContext, which is what webhooks are asked and answer.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=config.karmada.io
package v1alpha1
