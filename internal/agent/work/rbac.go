// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

// What the agent itself needs on the member. What it applies for users is up
// to the roles that the klusterlet operator aggregates.
//
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=appliedmanifestworks,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=appliedmanifestworks/status,verbs=get;patch;update
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=appliedmanifestworks/finalizers,verbs=update
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=agent,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=agent,resources=leases,resourceNames=work-agent-lock,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=agent,resources=pods,verbs=get

// LockName is the Lease in the namespace of the agent by which all processes
// that could apply works agree on which one does: the replicas of a work agent
// and, while one replaces the other, those of an agent that does everything.
const LockName = "work-agent-lock"
