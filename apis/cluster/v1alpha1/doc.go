// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains ClusterClaim, with which a member declares a
// property of itself, AddOnPlacementScore, with which an add-on says what it
// thinks of a member, and RolloutStrategy, which other kinds have in common.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=cluster.open-cluster-management.io
package v1alpha1
