// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 contains Placement, which chooses members, and
// PlacementDecision, which lists those that were chosen.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=cluster.open-cluster-management.io
package v1beta1
