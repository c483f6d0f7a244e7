// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// long is a text that knows itself.
type long string

func (l *long) String() string { return string(*l) }

// TestLinesAreShort has a server answer megabytes, which arrive in errors.
func TestLinesAreShort(t *testing.T) {
	const megabytes = 1 << 20
	text := long(strings.Repeat("é", megabytes))
	answer := errors.New("the server says: " + string(text))
	var none *long
	for name, values := range map[string][]any{
		"an error":               {"problem", fmt.Errorf("reading nodes: %w", answer)},
		"several errors":         {"problem", utilerrors.NewAggregate([]error{answer, answer})},
		"the text of an error":   {"problem", answer.Error()},
		"what has a text":        {"problem", &text},
		"nothing":                {"problem", none},
		"nothing that is long":   {"problem", "short", "number", 1, "missing", nil},
		"several texts together": {"one", answer.Error(), "two", answer},
	} {
		t.Run(name, func(t *testing.T) {
			var written bytes.Buffer
			core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&written), zapcore.InfoLevel)
			logger := zapr.NewLogger(zap.New(calmCore{shorteningCore{core}}))
			for what, write := range map[string]func(){
				"a line":         func() { logger.Info("Trying again", values...) },
				"what all share": func() { logger.WithValues(values...).Info("Trying again") },
				"an error":       func() { logger.Error(answer, "Trying again", values...) },
				"a message":      func() { logger.Info(answer.Error(), values...) },
			} {
				written.Reset()
				write()
				line := written.String()
				if got, most := len(line), 4*textBytesMax; got == 0 || got > most || strings.Count(line, "\n") != 1 {
					t.Errorf("%s has %d bytes, and at most %d are read by people: %.300s", what, got, most, line)
				}
				if strings.ContainsRune(line, '\uFFFD') {
					t.Errorf("%s is cut within a character", what)
				}
			}
			written.Reset()
			logger.V(1).Info("Details", values...)
			if written.Len() > 0 {
				t.Errorf("what is not asked for is written: %.300s", &written)
			}
		})
	}
}

func TestShortLinesAreWhole(t *testing.T) {
	var written bytes.Buffer
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg", EncodeDuration: zapcore.StringDurationEncoder}), zapcore.AddSync(&written), zapcore.InfoLevel)
	zapr.NewLogger(zap.New(shorteningCore{core})).WithValues("cluster", "east").Error(errors.New("no"), "Trying again", "attempt", 2)
	if got, want := strings.TrimSpace(written.String()), `{"msg":"Trying again","cluster":"east","attempt":2,"error":"no"}`; got != want {
		t.Errorf("the line is %s, want %s", got, want)
	}
}
