// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"

	"github.com/capstan-io/capstan/internal/operator/fence"
)

// The fence of the operator, which it may make but not move.
//
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=capstan-fence-klusterlet-v1,verbs=get

// fencing makes sure that the operator is fenced in before it does anything.
type fencing struct {
	keeper   *fence.Keeper
	operator fence.Operator
}

// run tells if the operator is not fenced in. It works all the same: who has no
// right to fence it in still wants a member.
func (f fencing) run(ctx context.Context, p *pass) error {
	p.set(f.keeper.State(ctx, f.operator).Condition())
	return nil
}
