// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"

	olm "github.com/operator-framework/operator-lib/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// UpgradeConditionType is the condition by which OLM is told whether it may
// replace the operator.
const UpgradeConditionType = "Upgradeable"

// Reasons of the condition Upgradeable.
const (
	upgradeReasonIdle = "Idle"
	upgradeReasonBusy = "HubChanging"
)

// UpgradeSignal sets the condition Upgradeable of the OperatorCondition that
// OLM made for the operator.
type UpgradeSignal interface {
	Set(ctx context.Context, status metav1.ConditionStatus, option ...olm.Option) error
}

// upgradeGate tells OLM only what it does not know yet.
type upgradeGate struct {
	signal UpgradeSignal
	told   metav1.ConditionStatus
}

// tell asks OLM not to replace the operator while it is changing a hub.
func (g *upgradeGate) tell(ctx context.Context, cm *operatorv1.ClusterManager) error {
	if g.signal == nil {
		return nil
	}
	status, reason, message := metav1.ConditionTrue, upgradeReasonIdle, "no hub is being changed"
	if isTrue(cm, operatorv1.ClusterManagerConditionProgressing) || isTrue(cm, operatorv1.ClusterManagerConditionDeleting) {
		status, reason = metav1.ConditionFalse, upgradeReasonBusy
		message = fmt.Sprintf("the hub of ClusterManager %q is being changed", cm.Name)
	}
	if status == g.told {
		return nil
	}
	if err := g.signal.Set(ctx, status, olm.WithReason(reason), olm.WithMessage(message)); err != nil {
		return fmt.Errorf("telling OLM whether the operator may be replaced: %w", err)
	}
	g.told = status
	return nil
}
