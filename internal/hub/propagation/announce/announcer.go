// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-io/capstan/internal/kube/events"
)

const (
	// pendingMax is how many events of a type wait to be written at most: as many as are told
	// at once, so that a namespace that tells much leaves room for others.
	pendingMax = events.AtOnceMax
	// writers is how many events are written at a time.
	writers = 2
	// attemptsMax is how often an event is tried: the namespace that it is recorded in
	// may be about to come.
	attemptsMax = 3
	// again is how soon to try once more.
	again = 2 * time.Second
	// action is what events say that the controllers were about.
	action = "Propagate"
)

// Event is something that has happened.
type Event struct {
	About corev1.ObjectReference
	// Type is Normal or Warning.
	Type, Reason, Note string
	// Part is what of the object it is about, such as one of its clusters; "" is all
	// of it. Of each part the same is not said twice in a row.
	Part string

	attempts int
}

// AnnouncerOptions are what an Announcer works with.
type AnnouncerOptions struct {
	// Client writes events and reads bindings from the cache.
	Client client.Client
	// Cache has the bindings and works that are watched.
	Cache cache.Cache
	Clock clock.PassiveClock
	// Controller is who reports, and Instance which one of its processes.
	Controller, Instance string
}

// Announcer records events. One that is nil records nothing: the feature gate is
// off. It is safe for concurrent use.
type Announcer struct {
	AnnouncerOptions

	said *memory
	// Warnings come first, as they are what somebody has to do something about.
	normal, warnings eventQueue
	dropped          prometheus.Counter
}

// eventQueue has the events of a type that wait, and as many come as its pace admits.
type eventQueue struct {
	pace    *events.EventPace
	waiting chan Event
}

func newEventQueue(clk clock.PassiveClock) eventQueue {
	return eventQueue{pace: events.NewEventPace(clk), waiting: make(chan Event, pendingMax)}
}

// NewAnnouncer returns an Announcer. It writes events while it runs.
func NewAnnouncer(o AnnouncerOptions) *Announcer {
	return &Announcer{
		AnnouncerOptions: o, said: newMemory(o.Clock), normal: newEventQueue(o.Clock), warnings: newEventQueue(o.Clock),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "capstan_propagation_events_dropped_total",
			Help: "Number of Events of feature gate KarmadaEvents that were not recorded because there were too many of their namespace, or of all, or because the hub refused them.",
		}),
	}
}

// MetricCollectors are the metrics to register.
func (a *Announcer) MetricCollectors() []prometheus.Collector {
	return []prometheus.Collector{a.dropped}
}

// RecordEvents records events that are news. It never waits.
func (a *Announcer) RecordEvents(all ...Event) {
	if a == nil {
		return
	}
	for _, event := range all {
		event.About = events.ShortenReference(event.About)
		event.Note = events.ShortenNote(event.Note) // before it waits
		switch {
		case !a.said.recordIfNew(event):
		case !a.queueOf(event).pace.AdmitEvent(event.About.Namespace):
			a.dropped.Inc()
		default:
			a.enqueueEvent(event)
		}
	}
}

func (a *Announcer) queueOf(event Event) eventQueue {
	if event.Type == corev1.EventTypeWarning {
		return a.warnings
	}
	return a.normal
}

func (a *Announcer) enqueueEvent(event Event) {
	select {
	case a.queueOf(event).waiting <- event:
	default:
		a.dropped.Inc()
	}
}

// Start watches bindings and works, and writes events until the context ends.
func (a *Announcer) Start(ctx context.Context) error {
	stop, err := a.watchObjects(ctx)
	if err != nil {
		return err
	}
	defer stop()
	done := make(chan struct{})
	for range writers {
		go func() {
			a.writeEvents(ctx)
			done <- struct{}{}
		}()
	}
	for range writers {
		<-done
	}
	return nil
}

// writeEvents writes the events that wait, and those that come.
func (a *Announcer) writeEvents(ctx context.Context) {
	for {
		var event Event
		select {
		case event = <-a.warnings.waiting:
		default:
			select {
			case <-ctx.Done():
				return
			case event = <-a.warnings.waiting:
			case event = <-a.normal.waiting:
			}
		}
		a.writeEvent(ctx, event)
	}
}

func (a *Announcer) writeEvent(ctx context.Context, event Event) {
	err := a.Client.Create(ctx, a.eventObject(event))
	event.attempts++
	switch {
	case err == nil || ctx.Err() != nil:
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || event.attempts >= attemptsMax:
		a.dropped.Inc()
		log.FromContext(ctx).V(1).Info("An event was not recorded", "reason", event.Reason, "kind", event.About.Kind, "namespace", event.About.Namespace, "name", event.About.Name, "problem", err.Error())
	default:
		time.AfterFunc(again, func() { a.enqueueEvent(event) })
	}
}

// eventObject returns an event as the API has it. One about an object without a
// namespace is in namespace default.
func (a *Announcer) eventObject(event Event) *eventsv1.Event {
	now := a.Clock.Now()
	namespace := event.About.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: util.GenerateEventName(event.About.Name, now.UnixNano())},
		EventTime:  metav1.NewMicroTime(now), ReportingController: a.Controller, ReportingInstance: a.Instance,
		Action: action, Reason: event.Reason, Regarding: event.About, Note: event.Note, Type: event.Type,
	}
}

// topic is what events with opposite reasons have in common.
func topic(reason string) string {
	return strings.TrimSuffix(strings.TrimSuffix(reason, "Succeed"), "Failed")
}
