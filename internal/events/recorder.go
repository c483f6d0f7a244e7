// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

const (
	// NoteBytesMax is how long the API lets the note of an event be.
	NoteBytesMax = 1024
	// ellipsis shows that a note was longer.
	ellipsis = "…"
)

// Recorder passes events on with notes that the API takes.
type Recorder struct {
	to events.EventRecorder
}

// NewRecorder returns a Recorder that records with the other one.
func NewRecorder(to events.EventRecorder) *Recorder {
	return &Recorder{to: to}
}

// Discard returns a Recorder that records nothing, for those who may not.
func Discard() *Recorder { return &Recorder{} }

// Eventf records an event; see events.EventRecorder for the arguments.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if r.to == nil {
		return
	}
	r.to.Eventf(regarding, related, eventType, reason, action, "%s", Note(fmt.Sprintf(note, args...)))
}

// Note returns the text as the note of an event: as it is, or cut at the end of
// a character and marked if it is too long.
func Note(text string) string {
	if len(text) <= NoteBytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:NoteBytesMax-len(ellipsis)], "") + ellipsis
}
