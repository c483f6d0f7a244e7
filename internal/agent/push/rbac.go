// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

// What the push agent itself needs. For a Push cluster the hub binds to it the
// roles that the agents of that cluster have, and PushCredentialsRole, in the
// namespace of the cluster: of other clusters it can read the ManagedCluster
// and nothing else.
//
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=hub,resources=leases,resourceNames=push-agent-lock,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=hub,resources=pods,verbs=get

// LockName is the Lease by which the replicas of the push agent agree on which
// one works.
const LockName = "push-agent-lock"
