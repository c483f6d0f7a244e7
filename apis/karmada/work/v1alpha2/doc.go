// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha2 contains the bindings of the Karmada API. A ResourceBinding,
// or a ClusterResourceBinding for an object without a namespace, says which
// clusters an object of the hub is sent to, and what became of it there.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=work.karmada.io
package v1alpha2
