// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health defines the health of an object. It judges nothing; that is
// for package interpret and what is known of single kinds.
package health

import (
	"fmt"
	"strings"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// Status is the health of an object in a word.
type Status string

const (
	// Healthy is an object that is as it should be.
	Healthy Status = "Healthy"
	// Progressing is an object that is not yet as it should be, and nothing says
	// that it will not be. Nothing depends on the time of day, so an object that
	// waits is Progressing for as long as it waits.
	Progressing Status = "Progressing"
	// Degraded is an object that will not be as it should be by waiting, or whose
	// controller says that it failed.
	Degraded Status = "Degraded"
	// Terminating is an object that is being deleted.
	Terminating Status = "Terminating"
	// Unknown is an object that cannot be judged.
	Unknown Status = "Unknown"
)

const (
	// messageBytesMax is the length of a message in bytes; texts of an object that
	// are longer are cut.
	messageBytesMax = 1024
	// reasonBytesMax is the length of a reason in bytes that is taken from an object.
	reasonBytesMax = 100
)

// Health is what is known about the health of an object.
type Health struct {
	Status Status
	// Reason is one word in CamelCase, for programs.
	Reason string
	// Message is a sentence that tells what is missing or wrong. It is the same
	// each time for the same object.
	Message string
}

// WithReason returns the health of an object of this status.
func (s Status) WithReason(reason, format string, args ...any) Health {
	return Health{Status: s, Reason: reason, Message: cutMessage(fmt.Sprintf(format, args...))}
}

// FromCondition returns the health of an object of this status that a condition tells: with
// the condition's reason, or the one that is given if it has none that can be
// one, and with its message after the sentence.
func (s Status) FromCondition(c fields.Condition, reason, sentence string) Health {
	return s.WithReason(ReasonOr(c.Reason, reason), "%s", SentenceWithCause(sentence, c.Message))
}

// ReasonOr returns a reason that an object gives, if it can be one.
func ReasonOr(given, otherwise string) string {
	if given == "" || len(given) > reasonBytesMax || strings.ContainsFunc(given, notInReason) || notLetter(given[0]) {
		return otherwise
	}
	return given
}

func notInReason(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

func notLetter(b byte) bool {
	return (b < 'a' || b > 'z') && (b < 'A' || b > 'Z')
}

// SentenceWithCause appends what an object says to a sentence, if it says anything.
func SentenceWithCause(sentence, given string) string {
	if given = strings.TrimSpace(given); given == "" {
		return sentence + "."
	}
	return sentence + ": " + strings.TrimSuffix(given, ".") + "."
}

func cutMessage(message string) string {
	if len(message) <= messageBytesMax {
		return message
	}
	return strings.ToValidUTF8(message[:messageBytesMax-len("...")], "") + "..."
}
