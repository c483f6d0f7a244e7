// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"log"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// stoppedClock is always at the same time.
type stoppedClock struct{ zapcore.Clock }

func (stoppedClock) Now() time.Time { return time.Unix(1000, 0) }

// TestARepeatedLineIsLoggedSeldom has somebody send frames without number of which the standard library logs each.
func TestARepeatedLineIsLoggedSeldom(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	restore, err := redirectStandardLog(zap.New(core, zap.WithClock(stoppedClock{zapcore.DefaultClock})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restore)
	for range 100 * repeatedMax {
		log.Printf("Transport: unhandled response frame type %T", t)
	}
	log.Print("another line")
	if lines.Len() != repeatedMax+1 {
		t.Errorf("%d lines are logged, want %d", lines.Len(), repeatedMax+1)
	}
}
