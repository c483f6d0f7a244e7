// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains ClusterConnection: how the hub and a member
// connect, and the observed state of the member; and ControlPlane: the API
// server of a dedicated hub. It is the only API group of our own: kinds of other
// projects get no additional fields, as their clients would drop them.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:Optional
// +groupName=fleet.capstan.io
package v1alpha1
