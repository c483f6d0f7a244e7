// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1 contains the kinds that install Capstan: ClusterManager turns the
// cluster on which it is created into a hub, Klusterlet makes it a member of a
// hub.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=operator.open-cluster-management.io
package v1
