// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"errors"
	"testing"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestALeaderThatStopsLogsNoError(t *testing.T) {
	for name, test := range map[string]struct {
		reason, message string
		want            zapcore.Level
	}{
		"Stopped": {"it was told to stop", afterStop, zapcore.InfoLevel},
		"Failed":  {"what fails is an error", "Reconciler error", zapcore.ErrorLevel},
	} {
		t.Run(name, func(t *testing.T) {
			core, lines := observer.New(zapcore.InfoLevel)
			logger := zapr.NewLogger(zap.New(calmCore{core})).WithName("manager").WithValues("part", "test")
			logger.Error(errors.New("leader election lost"), test.message)
			all := lines.All()
			if len(all) != 1 || all[0].Level != test.want || all[0].ContextMap()["part"] != "test" {
				t.Errorf("%s: got %v, want one line of level %s with its values", test.reason, all, test.want)
			}
		})
	}
}
