// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"fmt"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// textBytesMax is how much of an error, and of any other text, is in a line of the log: what an
// API server of a member answers is as long as it likes, and may come with each attempt.
const textBytesMax = 8 << 10

// shorteningCore cuts the texts of lines that are too long, and keeps nothing of the rest.
type shorteningCore struct{ zapcore.Core }

// With is part of zapcore.Core.
func (s shorteningCore) With(fields []zapcore.Field) zapcore.Core {
	return shorteningCore{s.Core.With(shortenFields(fields))}
}

// Check is part of zapcore.Core.
func (s shorteningCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if s.Enabled(entry.Level) {
		return checked.AddCore(entry, s)
	}
	return checked
}

// Write is part of zapcore.Core.
func (s shorteningCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	entry.Message = cutText(entry.Message)
	return s.Core.Write(entry, shortenFields(fields))
}

// shortenFields returns the fields with their texts cut.
func shortenFields(fields []zapcore.Field) []zapcore.Field {
	cutFields := make([]zapcore.Field, len(fields))
	for i, field := range fields {
		cutFields[i] = shortenField(field)
	}
	return cutFields
}

// shortenField returns a field with its text cut. Objects are not texts: what they have is what this
// program makes of them.
func shortenField(field zapcore.Field) zapcore.Field {
	text := ""
	switch value := field.Interface.(type) {
	case nil:
		field.String = cutText(field.String)
	case error:
		text = recoverText(value.Error)
	case fmt.Stringer:
		text = recoverText(value.String)
	}
	if len(text) > textBytesMax {
		return zap.String(field.Key, cutText(text))
	}
	return field
}

// recoverText returns a text, "" if there is none: zap logs also what is nil, and has no methods.
func recoverText(text func() string) (read string) {
	defer func() { _ = recover() }()
	return text()
}

func cutText(text string) string {
	if len(text) <= textBytesMax {
		return text
	}
	return strings.Clone(conditions.ShortenText(text, textBytesMax))
}
