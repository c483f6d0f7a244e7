// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 contains ManagedCluster, which represents a member cluster on the
// hub, and the names that hub and agents share for registration.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=cluster.open-cluster-management.io
package v1
