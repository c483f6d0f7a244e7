// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

const (
	// tellEvery is how often at most the same is logged.
	tellEvery = 5 * time.Minute
	// kindsMax is how many errors are told apart; there are as many as mistakes in
	// variables, and one for all spans that are lost.
	kindsMax = 16
	// spansLost is the kind of all lostErrors, for whichever reason.
	spansLost = ""
)

// lostError says that spans did not reach the collector.
type lostError struct {
	spans int
	cause error
}

func (e lostError) Error() string { return e.cause.Error() }
func (e lostError) Unwrap() error { return e.cause }

// Losses logs what the SDK of OpenTelemetry has to say: spans that are lost, and
// variables that it cannot read. It is an otel.ErrorHandler.
type Losses struct {
	log   logr.Logger
	clock clock.PassiveClock

	mutex  sync.Mutex
	silent map[string]time.Time // until then, by error
	lost   int                  // spans that no line tells of yet
}

// NewLosses returns a handler that logs there.
func NewLosses(log logr.Logger, clock clock.PassiveClock) *Losses {
	return &Losses{log: log, clock: clock, silent: map[string]time.Time{spansLost: {}}}
}

// Handle is part of otel.ErrorHandler.
func (l *Losses) Handle(err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	what := err.Error()
	var lost lostError
	isLoss := errors.As(err, &lost)
	if isLoss {
		what = spansLost
		l.lost += lost.spans
	}
	now := l.clock.Now()
	until, known := l.silent[what]
	if now.Before(until) || !known && len(l.silent) == kindsMax {
		return
	}
	l.silent[what] = now.Add(tellEvery)
	if !isLoss {
		l.log.Info("Traces are not as the environment asks for", "problem", err.Error())
		return
	}
	l.log.Info("The collector did not get spans, which are lost", "spans", l.lost, "problem", err.Error())
	l.lost = 0
}
