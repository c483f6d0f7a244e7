// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grants builds the objects that let the agent of a cluster work on
// the hub: its namespace, its roles and bindings, and the lease that it renews.
//
// An agent may use nothing but what stands here. The names and rules are a
// contract with agents, which check them before they start. The package builds
// objects only: it has no client.
package grants

// The hub may only grant what it holds itself, so these are its permissions, too.
//
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=create;get;list;watch
// +kubebuilder:rbac:groups=register.open-cluster-management.io,resources=managedclusters/clientcertificates,verbs=renew
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters/status,verbs=patch;update
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=managed-cluster-lease,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections/status,verbs=patch
// +kubebuilder:rbac:groups=addon.open-cluster-management.io,resources=managedclusteraddons,verbs=get;list;watch
// +kubebuilder:rbac:groups=addon.open-cluster-management.io,resources=managedclusteraddons/status,verbs=patch;update
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch;update
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks/status,verbs=patch;update
// +kubebuilder:rbac:groups=config.karmada.io,resources=resourceinterpretercustomizations;resourceinterpreterwebhookconfigurations,verbs=get;list;watch
