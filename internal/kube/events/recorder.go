// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/events"

	"github.com/capstan-io/capstan/internal/kube/rights"
)

const (
	// NoteBytesMax is how long the API lets the note of an event be.
	NoteBytesMax = 1024
	// ellipsis shows that a note was longer.
	ellipsis = "…"
	// linesMax is of how many lines a Recorder knows that it has logged them, and
	// repeatedAfter how long: client-go counts repeated events, a log would grow.
	linesMax      = 1000
	repeatedAfter = 10 * time.Minute
)

// Recorder passes events on with notes that the API takes.
type Recorder struct {
	to     events.EventRecorder
	log    logr.Logger
	logged *cache.LRUExpireCache
}

// loggedLine is what makes lines of the log the same.
type loggedLine struct {
	uid             types.UID
	namespace, name string
	reason, note    string
}

// NewRecorder returns a Recorder that records with the other one.
func NewRecorder(to events.EventRecorder) *Recorder {
	return &Recorder{to: to}
}

// WithLogger makes the Recorder log what it records: one line for each event, and none
// for one that is repeated within some minutes.
func (r *Recorder) WithLogger(log logr.Logger) *Recorder {
	r.log, r.logged = log, cache.NewLRUExpireCache(linesMax)
	return r
}

// NewAllowedRecorder returns a Recorder that records with the other one, or nothing if the
// account of these rights may not.
func NewAllowedRecorder(to events.EventRecorder, held rights.Rights) *Recorder {
	if !held.AllowsRules(rbacv1.PolicyRule{APIGroups: []string{eventsv1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}) {
		return NewDiscardRecorder()
	}
	return NewRecorder(to)
}

// NewDiscardRecorder returns a Recorder that records nothing, for those who may not.
func NewDiscardRecorder() *Recorder { return &Recorder{} }

// Eventf records an event; see events.EventRecorder for the arguments.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	text := fmt.Sprintf(note, args...)
	r.logLine(regarding, eventType, reason, text)
	if r.to == nil {
		return
	}
	r.to.Eventf(regarding, related, eventType, reason, action, "%s", ShortenNote(text))
}

// logLine logs an event. A warning is no error of this component: it is about what
// the object says, or about somebody else.
func (r *Recorder) logLine(regarding runtime.Object, eventType, reason, note string) {
	if r.logged == nil {
		return
	}
	of := loggedLine{reason: reason, note: note}
	if object, err := meta.Accessor(regarding); err == nil {
		of.uid, of.namespace, of.name = object.GetUID(), object.GetNamespace(), object.GetName()
	}
	if _, known := r.logged.Get(of); known {
		return
	}
	r.logged.Add(of, nil, repeatedAfter)
	r.log.Info(note, "reason", reason, "kind", objectKindName(regarding), "namespace", of.namespace, "name", of.name,
		"warning", eventType == corev1.EventTypeWarning)
}

// objectKindName returns the kind of an object. Typed ones often do not have it.
func objectKindName(object runtime.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	name := fmt.Sprintf("%T", object)
	return name[strings.LastIndex(name, ".")+1:]
}

// ShortenNote returns the text as the note of an event: as it is, or cut at the end of
// a character and marked if it is too long.
func ShortenNote(text string) string {
	if len(text) <= NoteBytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:NoteBytesMax-len(ellipsis)], "") + ellipsis
}
