// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=agent,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=agent,resources=leases,resourceNames=registration-agent-lock,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=agent,resources=pods,verbs=get

// LockName is the Lease in the namespace of the agent by which all processes
// that could register agree on which one does: the replicas of a registration
// agent and, while one replaces the other, those of an agent that does
// everything.
const LockName = "registration-agent-lock"
