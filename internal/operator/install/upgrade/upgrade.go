// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgrade reports to the Operator Lifecycle Manager (OLM) whether an
// operator may be upgraded now, in the condition Upgradeable of its
// OperatorCondition.
//
// It does not know what keeps an operator busy; its operator says that for each
// object that it reconciles.
package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	olm "github.com/operator-framework/operator-lib/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionType is the condition that OLM reads.
const ConditionType = "Upgradeable"

// reasonIdle is the reason of the condition while nothing keeps the operator busy.
const reasonIdle = "Idle"

// Signal sets the condition.
type Signal interface {
	Set(ctx context.Context, status metav1.ConditionStatus, option ...olm.Option) error
}

// Gate holds an upgrade back while any object keeps the operator busy. It writes
// only what OLM does not know yet, and is safe for concurrent use.
type Gate struct {
	signal Signal
	// reason and idle are the reason while busy and the message while idle.
	reason, idle string

	mu sync.Mutex
	// told is the last message that OLM got.
	told string
	// busy has the reason in words for each object that keeps the operator busy.
	busy map[string]string
}

// GateText is what OLM's users read.
type GateText struct {
	// BusyReason is the CamelCase reason of the condition while it is False.
	BusyReason string
	// Idle is the message while it is True.
	Idle string
}

// NewGate returns a Gate. The signal is nil where there is no OLM.
func NewGate(signal Signal, text GateText) *Gate {
	return &Gate{signal: signal, reason: text.BusyReason, idle: text.Idle, busy: map[string]string{}}
}

// ReportBusy says what the operator is doing for the object of the name, empty if
// it is idle. An object is busy until it is reported as idle.
func (g *Gate) ReportBusy(ctx context.Context, name, doing string) error {
	if g.signal == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, name)
	if doing != "" {
		g.busy[name] = doing
	}
	status := metav1.ConditionTrue
	reason := reasonIdle
	message := g.idle
	if len(g.busy) > 0 {
		status = metav1.ConditionFalse
		reason = g.reason
		message = g.busy[slices.Min(slices.Collect(maps.Keys(g.busy)))]
	}
	if message == g.told {
		return nil
	}
	if err := g.signal.Set(ctx, status, olm.WithReason(reason), olm.WithMessage(message)); err != nil {
		return fmt.Errorf("reporting to OLM whether the operator may be upgraded: %w", err)
	}
	g.told = message
	return nil
}
