// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/kube/rights"
)

const (
	// rememberedMax is of how many lines and events a Recorder knows that it has told them.
	rememberedMax = 20_000
	// repeatedAfter is how long a line is not logged again: client-go counts repeated events, a
	// log would grow.
	repeatedAfter = 10 * time.Minute
	// joinedFor is for how long at least client-go counts an event together with the last one
	// about the same.
	joinedFor = 6 * time.Minute
)

// Recorder passes events on with notes and references that the API takes, as many as its
// EventPace lets it. What is told again costs nothing.
type Recorder struct {
	to      events.EventRecorder
	log     logr.Logger
	pace    *EventPace
	dropped prometheus.Counter

	seed maphash.Seed
	// lines were logged, and recorded are events that client-go has: digests of them, as texts
	// may be anything. Lines are nil without a log.
	lines, recorded *cache.LRUExpireCache
}

// loggedLine is what makes lines of the log the same.
type loggedLine struct {
	uid             types.UID
	namespace, name string
	reason, note    string
}

// recordedEvent is what makes events the same for client-go.
type recordedEvent struct {
	eventType, reason, action string
	regarding, related        corev1.ObjectReference
}

// NewRecorder returns a Recorder that records with the other one.
func NewRecorder(to events.EventRecorder) *Recorder { return newRecorder(to, clock.RealClock{}) }

func newRecorder(to events.EventRecorder, clk clock.PassiveClock) *Recorder {
	return &Recorder{to: to, pace: NewEventPace(clk), dropped: NewDropCounter(), seed: maphash.MakeSeed(), recorded: cache.NewLRUExpireCacheWithClock(rememberedMax, clk)}
}

// WithLogger makes the Recorder log what it records: one line for each event, and none
// for one that is repeated within some minutes.
func (r *Recorder) WithLogger(log logr.Logger) *Recorder {
	r.log, r.lines = log, cache.NewLRUExpireCacheWithClock(rememberedMax, r.pace.clock)
	return r
}

// WithDropCounter makes the Recorder count there what it does not tell: see NewDropCounter.
func (r *Recorder) WithDropCounter(dropped prometheus.Counter) *Recorder {
	r.dropped = dropped
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
func NewDiscardRecorder() *Recorder { return NewRecorder(nil) }

// Eventf records an event and logs it, and drops what is new of that if its EventPace does not admit
// it; see events.EventRecorder for the arguments.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	text := ShortenNote(fmt.Sprintf(note, args...))
	about := referenceTo(regarding)
	line := maphash.Comparable(r.seed, loggedLine{uid: about.UID, namespace: about.Namespace, name: about.Name, reason: reason, note: text})
	event := maphash.Comparable(r.seed, recordedEvent{eventType: eventType, reason: reason, action: action, regarding: about, related: referenceTo(related)})
	logs := r.lines != nil && !isRemembered(r.lines, line)
	records := r.to != nil && !isRemembered(r.recorded, event)
	if (logs || records) && !r.pace.AdmitEvent(about.Namespace) {
		r.dropped.Inc()
		if records {
			return // it is new the next time as well
		}
		logs = false
	}
	if logs {
		r.lines.Add(line, nil, repeatedAfter)
		r.logLine(about, eventType, reason, text)
	}
	if r.to != nil {
		r.recorded.Add(event, nil, joinedFor)
		r.to.Eventf(shortenNames(regarding), shortenNames(related), eventType, reason, action, "%s", text)
	}
}

func isRemembered(in *cache.LRUExpireCache, digest uint64) bool {
	_, known := in.Get(digest)
	return known
}

// logLine logs an event. A warning is no error of this component: it is about what
// the object says, or about somebody else.
func (r *Recorder) logLine(about corev1.ObjectReference, eventType, reason, note string) {
	r.log.Info(note, "reason", reason, "kind", about.Kind, "namespace", about.Namespace, "name", about.Name,
		"warning", eventType == corev1.EventTypeWarning)
}
