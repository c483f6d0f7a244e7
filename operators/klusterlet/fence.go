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

// fencePhase makes sure that the operator is fenced in before it does anything.
type fencePhase struct {
	keeper   *fence.PolicyInstaller
	operator fence.FencedOperator
}

// ensureFence tells if the operator is not fenced in. It works all the same: who has no
// right to fence it in still wants a member.
func (f fencePhase) ensureFence(ctx context.Context, p *klusterletPass) error {
	p.setCondition(f.keeper.EnsureFence(ctx, f.operator).UnfencedCondition())
	return nil
}
