// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is the hub's aggregated API server. It serves Karmada's
// Clusters and Works, and stores nothing: each Cluster is a view of one
// ClusterConnection of the hub and each Work of one ManifestWork, so resource
// versions, pages, watches and conflicts are those of the hub's API server.
//
// Requests are authenticated and authorized by the hub. The account of this
// program can do more than its users, so what a user may not do through
// Clusters is reviewed for each write (package cluster).
package apiserver

// What requests of users are answered with, and the reviews of what they may do.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=extension-apiserver-authentication,verbs=get;list;watch
