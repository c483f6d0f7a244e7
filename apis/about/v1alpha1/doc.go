// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains ClusterProperty of SIG Multicluster, with which a
// cluster declares a property of itself.
//
// +kubebuilder:object:generate=true
// +groupName=about.k8s.io
package v1alpha1
