// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle accepts clusters and removes them: it grants the agent of
// an accepted cluster its namespace, permissions and Lease, revokes them from a
// denied one, and removes everything with a deleted one.
package lifecycle

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;list;watch;patch;update
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters/status,verbs=patch;update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings;rolebindings,verbs=get;list;watch;create;update;delete
// The API server checks what a binding grants by looking at all bindings there
// are, unless one may bind the role. So that a fleet of thousands does not slow
// each new cluster down, these two roles may be bound, by name; the hub holds
// all that is in them anyway.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames="open-cluster-management:managedcluster:registration";"open-cluster-management:managedcluster:work",verbs=bind
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=managed-cluster-lease,verbs=get;list;watch;delete;update
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
