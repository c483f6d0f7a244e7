// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains ManifestWorkReplicaSet, with which the hub delivers
// the same objects to all members that Placements choose.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=work.open-cluster-management.io
package v1alpha1
