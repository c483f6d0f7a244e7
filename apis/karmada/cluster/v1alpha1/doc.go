// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains Karmada's Cluster, as which the hub's aggregated
// API server shows the clusters that have joined. It is not stored, so there is
// no CustomResourceDefinition of it: it is a view of ManagedCluster and
// ClusterConnection.
//
// +kubebuilder:object:generate=true
// +kubebuilder:skip
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.karmada.cluster.v1alpha1
package v1alpha1
