// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package abandoned removes the finalizer of the agent from deleted works that no agent
// will ever clean up: those of clusters that never had one. Works get that finalizer at
// admission, and otherwise only an agent removes it.
package abandoned

// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch
