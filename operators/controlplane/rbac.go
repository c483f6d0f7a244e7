// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"

	"github.com/capstan-io/capstan/internal/fence"
)

// What the operator may do everywhere: its own kind, and what tells where etcd
// stores and how clients reach a Service of type NodePort. What it may do in the
// namespaces of ControlPlanes stands in package manifests.
//
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=controlplanes,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=controlplanes/status,verbs=update;patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// The fence of the operator, which it may make but not move.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=capstan-fence-control-plane-v1,verbs=get

// fencing makes sure that the operator is fenced in before it does anything.
type fencing struct {
	keeper   *fence.Keeper
	operator fence.Operator
}

// run tells if the operator is not fenced in. It works all the same: who has no
// right to fence it in still wants a control plane.
func (f fencing) run(ctx context.Context, p *pass) error {
	p.set(f.keeper.State(ctx, f.operator).Condition())
	return nil
}
