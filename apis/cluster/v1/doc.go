// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 has ManagedCluster, which represents a member cluster on the hub,
// and the names that hub and agents have agreed on for registering members.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=cluster.open-cluster-management.io
package v1
