// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logging sends the logs of this process, of controller-runtime, of
// client-go and of the standard library to one zap logger that writes JSON lines to standard error.
package logging

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// verbosityMax is the most that zap can tell apart.
const verbosityMax = 127

// SetupLogger makes the process log at the verbosity v and returns the logger. Zero
// is for operators: state changes and failures. Each step up tells more; 4 and
// above is for developers.
func SetupLogger(v int) (logr.Logger, error) {
	config := zap.NewProductionConfig()
	config.Level = zap.NewAtomicLevelAt(zapcore.Level(-min(max(v, 0), verbosityMax)))
	config.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	config.Sampling = nil
	config.DisableStacktrace = true // errors are wrapped and say where they come from
	zapLogger, err := config.Build(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return calmCore{shorteningCore{core}} }))
	if err != nil {
		return logr.Logger{}, fmt.Errorf("building the logger for verbosity %d: %w", v, err)
	}
	logger := zapr.NewLogger(zapLogger)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	if _, err := redirectStandardLog(zapLogger); err != nil {
		return logr.Logger{}, fmt.Errorf("redirecting the log of the standard library: %w", err)
	}
	return logger, nil
}

// repeatedMax is how often the same line of the standard library's log is logged in a second.
const repeatedMax = 10

// redirectStandardLog logs what libraries write with package log as warnings, until the function is called that it
// returns. They write a line for each mistake of who is at the other end of a connection, such as a frame of HTTP/2 that
// nobody knows, which are hundreds of thousands in a second.
func redirectStandardLog(logger *zap.Logger) (restore func(), err error) {
	return zap.RedirectStdLogAt(logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, repeatedMax, 0)
	})), zapcore.WarnLevel)
}

// afterStop is what controller-runtime logs as an error about what ends because the
// process was told to end: in particular that a leader gives its lease back.
const afterStop = "error received after stop sequence was engaged"

// calmCore logs what libraries take for errors, and is none, as information.
type calmCore struct{ zapcore.Core }

// With is part of zapcore.Core.
func (c calmCore) With(fields []zapcore.Field) zapcore.Core { return calmCore{c.Core.With(fields)} }

// Check is part of zapcore.Core.
func (c calmCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Message == afterStop {
		entry.Level = zapcore.InfoLevel
	}
	return c.Core.Check(entry, checked)
}
