// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/capstan-io/capstan/internal/rights"
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

// Allowed returns a Recorder that records with the other one, or nothing if the
// account of these rights may not.
func Allowed(to events.EventRecorder, held rights.Rights) *Recorder {
	if !held.Allow(rbacv1.PolicyRule{APIGroups: []string{eventsv1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}) {
		return Discard()
	}
	return NewRecorder(to)
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
