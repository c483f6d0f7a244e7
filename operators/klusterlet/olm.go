// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"
	"sync"

	olm "github.com/operator-framework/operator-lib/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// UpgradeConditionType is the condition by which OLM is told whether it may
// replace the operator.
const UpgradeConditionType = "Upgradeable"

// UpgradeSignal sets the condition Upgradeable of the OperatorCondition that
// OLM made for the operator.
type UpgradeSignal interface {
	Set(ctx context.Context, status metav1.ConditionStatus, option ...olm.Option) error
}

// olmState is what OLM was told last. Passes run at the same time.
type olmState struct {
	mu   sync.Mutex
	told metav1.ConditionStatus
}

// tellOLM asks OLM not to replace the operator while it removes agents: the
// next one might not know all that this one installed. It tells only what OLM
// does not know yet.
func (c *Controller) tellOLM(ctx context.Context, klusterlet *operatorv1.Klusterlet) error {
	if c.Upgrade == nil {
		return nil
	}
	status, reason, message := metav1.ConditionTrue, "Idle", "no agents are being removed"
	if !klusterlet.DeletionTimestamp.IsZero() && !released(klusterlet) {
		status, reason = metav1.ConditionFalse, "RemovingAgents"
		message = fmt.Sprintf("the agents of Klusterlet %q are being removed", klusterlet.Name)
	}
	c.olm.mu.Lock()
	defer c.olm.mu.Unlock()
	if status == c.olm.told {
		return nil
	}
	if err := c.Upgrade.Set(ctx, status, olm.WithReason(reason), olm.WithMessage(message)); err != nil {
		return fmt.Errorf("telling OLM whether the operator may be replaced: %w", err)
	}
	c.olm.told = status
	return nil
}
