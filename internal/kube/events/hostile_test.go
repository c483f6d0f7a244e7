// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

const megabyte = 1 << 20

// sentEvents are the events that client-go writes.
type sentEvents chan *eventsv1.Event

func (s sentEvents) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	s <- event
	return event, nil
}

func (s sentEvents) Update(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return event, nil
}

func (s sentEvents) Patch(_ context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return event, nil
}

// TestWhatAnEventIsAboutIsBounded has texts of a megabyte wherever a user could get one: API servers look at the
// note of an event only.
func TestWhatAnEventIsAboutIsBounded(t *testing.T) {
	const eventBytesMax = 8 << 10
	long := strings.Repeat("x", megabyte)
	named := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}
	hostile := metav1.ObjectMeta{Name: long}
	sent := make(sentEvents, 1)
	broadcaster := events.NewBroadcaster(sent)
	expect.NoError(t, broadcaster.StartRecordingToSinkWithContext(t.Context()))
	t.Cleanup(broadcaster.Shutdown)
	recorder := NewRecorder(broadcaster.NewRecorder(scheme.Scheme, "test"))
	for name, test := range map[string]struct{ regarding, related kruntime.Object }{
		"what does not exist": {&corev1.ConfigMap{ObjectMeta: named}, &schedulingv1.PriorityClass{ObjectMeta: hostile}},
		"metadata":            {&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: hostile}, nil},
		"references": {
			&corev1.ObjectReference{APIVersion: long, Kind: long, Namespace: "shop", Name: long, UID: "2", FieldPath: long},
			&corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "web", ResourceVersion: long},
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorder.Eventf(test.regarding, test.related, corev1.EventTypeWarning, "Waits", "Test", "it waits for %q", long)
			select {
			case event := <-sent:
				if text, err := json.Marshal(event); err != nil || len(text) > eventBytesMax {
					t.Errorf("the event has %d bytes, want at most %d (%v)", len(text), eventBytesMax, err)
				}
				if test.related != nil && event.Related == nil {
					t.Error("it is related to nothing")
				}
			case <-time.After(eventPatience):
				t.Errorf("no event is sent within %s", eventPatience)
			}
		})
	}
}

// TestLongNotesFillNoMemory tells of many objects, each time in another note of a megabyte.
func TestLongNotesFillNoMemory(t *testing.T) {
	const objects, keptMax = 100, 10 * megabyte
	recorder := newRecorder(countedEvents{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0))).WithLogger(logr.Discard())
	before := heapBytes()
	for n := range objects {
		recorder.Eventf(object("shop", n), nil, corev1.EventTypeWarning, "Waits", "Test", "object %d waits for %q", n, strings.Repeat("\x7f", megabyte))
	}
	if kept := heapBytes() - before; kept > keptMax {
		t.Errorf("%d MiB are kept of %d notes", kept/megabyte, objects)
	}
	runtime.KeepAlive(recorder)
}

func heapBytes() int64 {
	runtime.GC()
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// countedEvents counts the events of namespaces.
type countedEvents map[string]int

func (c countedEvents) Eventf(regarding, _ kruntime.Object, _, _, _, _ string, _ ...any) {
	c[referenceTo(regarding).Namespace]++
}

func object(namespace string, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("object-", n)}}
}

// TestEventsOfANamespaceHaveAPace has a policy name one override policy after the other that does not exist, of which it
// is told of each of 10,000 objects.
func TestEventsOfANamespaceHaveAPace(t *testing.T) {
	const objects, names, minute = 10_000, 20, 60
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	sent := countedEvents{}
	lines := &countedLines{}
	recorder := newRecorder(sent, clk).WithLogger(logr.New(lines))
	for n := range names {
		missing := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("missing-", n)}}
		for i := range objects {
			recorder.Eventf(object("tenant", i), missing, corev1.EventTypeWarning, "Waits", "Test", "it waits for %q", missing.Name)
		}
		recorder.Eventf(object("other", n), nil, corev1.EventTypeNormal, "Applied", "Test", "policy %q was applied", "all")
		recorder.Eventf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", n)}}, nil, corev1.EventTypeNormal, "Joined", "Test", "it has joined")
		clk.SetTime(clk.Now().Add(minute * time.Second))
	}
	if most := namespaceAtOnce + names*minute*namespaceInASecond; sent["tenant"] > most || sent["tenant"] < namespaceAtOnce || lines.written > most+2*names {
		t.Errorf("%d events and %d lines are told of one namespace, want at most %d", sent["tenant"], lines.written, most)
	}
	if sent["other"] != names || sent[""] != names {
		t.Errorf("%d events of %d are told of another namespace, and %d of objects without one", sent["other"], names, sent[""])
	}
}

// countedLines is a log that counts its lines.
type countedLines struct {
	logr.LogSink
	written int
}

func (*countedLines) Init(logr.RuntimeInfo) {}

func (*countedLines) Enabled(int) bool { return true }

func (c *countedLines) Info(int, string, ...any) { c.written++ }

// TestEventsOfManyNamespacesHaveAPace has as many namespaces as somebody likes.
func TestEventsOfManyNamespacesHaveAPace(t *testing.T) {
	const namespaces, objects, minutes = 30, 1000, 5
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	sent := countedEvents{}
	recorder := newRecorder(sent, clk)
	for n := range minutes {
		for of := range namespaces {
			for i := range objects {
				recorder.Eventf(object(fmt.Sprint("space-", of), n*objects+i), nil, corev1.EventTypeNormal, "Applied", "Test", "policy %q was applied", "all")
			}
		}
		clk.SetTime(clk.Now().Add(time.Minute))
	}
	told := 0
	for _, of := range sent {
		told += of
	}
	if most := AtOnceMax + minutes*60*inASecond; told > most || told < AtOnceMax {
		t.Errorf("%d events are told of all, want at most %d", told, most)
	}
}

// TestEventsAboutNoNamespaceHoldUpNoOther has more told of clusters, such as what their agents do to each namespace, than of all objects
// together.
func TestEventsAboutNoNamespaceHoldUpNoOther(t *testing.T) {
	sent := countedEvents{}
	recorder := newRecorder(sent, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	for n := range AtOnceMax + 1000 {
		recorder.Eventf(object("", n), nil, corev1.EventTypeWarning, "Reverted", "Test", "something reverts it")
	}
	recorder.Eventf(object("tenant", 0), nil, corev1.EventTypeNormal, "Applied", "Test", "policy %q was applied", "all")
	if sent["tenant"] != 1 || sent[""] != namespaceAtOnce {
		t.Errorf("%d events are told of a tenant, and %d of what is in no namespace, want 1 and %d", sent["tenant"], sent[""], namespaceAtOnce)
	}
}

// TestOrdinaryEventsAreTold has 1,000 objects of a namespace rolled out, with ten events each at once, and tells them
// again as often as nothing changes.
func TestOrdinaryEventsAreTold(t *testing.T) {
	const objects, reasons, times = 1000, 10, 10
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	sent := countedEvents{}
	recorder := newRecorder(sent, clk).WithLogger(logr.Discard())
	for range times {
		for i := range objects {
			for reason := range reasons {
				recorder.Eventf(object("shop", i), nil, corev1.EventTypeNormal, fmt.Sprint("Reason", reason), "Test", "all is well")
			}
		}
		clk.SetTime(clk.Now().Add(joinedFor - time.Second))
	}
	if want := objects * reasons * times; sent["shop"] != want {
		t.Errorf("client-go is told of %d events, want %d: what it counts costs nothing", sent["shop"], want)
	}
}
