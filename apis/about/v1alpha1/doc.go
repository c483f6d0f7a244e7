// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has ClusterProperty of SIG Multicluster, by which a cluster
// tells a fact about itself.
//
// +kubebuilder:object:generate=true
// +groupName=about.k8s.io
package v1alpha1
