// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 contains ManagedClusterSet, a group of members, and
// ManagedClusterSetBinding, which lets a namespace use such a group.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=cluster.open-cluster-management.io
package v1beta2
