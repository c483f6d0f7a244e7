// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

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

// upgradeGate tells OLM only what it does not know yet. It is safe for concurrent
// use.
type upgradeGate struct {
	signal UpgradeSignal

	mu   sync.Mutex
	told metav1.ConditionStatus
	// busy are the names of the ClusterManagers whose hub is being changed.
	busy map[string]bool
}

// tell asks OLM not to replace the operator while it is changing a hub.
func (g *upgradeGate) tell(ctx context.Context, cm *operatorv1.ClusterManager) error {
	if g.signal == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, cm.Name)
	if isTrue(cm, operatorv1.ClusterManagerConditionProgressing) || isTrue(cm, operatorv1.ClusterManagerConditionDeleting) {
		g.busy[cm.Name] = true
	}
	status, reason, message := metav1.ConditionTrue, upgradeReasonIdle, "no hub is being changed"
	if len(g.busy) > 0 {
		status, reason = metav1.ConditionFalse, upgradeReasonBusy
		message = fmt.Sprintf("the hub of ClusterManager %q is being changed", slices.Min(slices.Collect(maps.Keys(g.busy))))
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
