// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// heavyEvents are events of which a client makes many times what a light one is.
func heavyEvents() map[string]string {
	const event = `{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a",%s}}}`
	return map[string]string{
		"long":  fmt.Sprintf(event, `"annotations":{"a":"`+strings.Repeat("a", 4<<20)+`"}`),
		"dense": fmt.Sprintf(event, `"ownerReferences":[{}`+strings.Repeat(",{}", elementsMin-10)+"]"),
	}
}

// eventful is a member that sends events in each watch, and the client of it.
type eventful struct {
	*testing.T

	transport *Transport
	clients   kubernetes.Interface
}

func newEventful(t *testing.T, send func(http.ResponseWriter)) *eventful {
	t.Helper()
	server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		send(w)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	m := &eventful{T: t, transport: transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())}
	var err error
	m.clients, err = kubernetes.NewForConfig(&rest.Config{Host: server.URL, Transport: m.transport})
	expect.NoError(t, err)
	return m
}

// watch watches objects of which little is kept.
func (m *eventful) watch() watch.Interface {
	m.Helper()
	w, err := m.clients.CoreV1().ConfigMaps("").Watch(ReducedContext(m.Context()), metav1.ListOptions{})
	expect.NoError(m.T, err)
	return w
}

// next returns what a watch tells next.
func (m *eventful) next(w watch.Interface) watch.EventType {
	m.Helper()
	select {
	case event := <-w.ResultChan():
		return event.Type
	case <-time.After(5 * time.Minute):
		m.Fatal("the watch tells nothing")
	}
	return ""
}

// awaitEvents waits until clients hold no more than this of all watches.
func (m *eventful) awaitEvents(most int64) {
	m.Helper()
	held := func() int64 { return m.transport.limits.budget.addEvents(&answerShare{}, 0) }
	for end := time.Now().Add(5 * time.Minute); held() > most; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			m.Fatalf("clients hold %d bytes of the events of one cluster, want %d at most", held(), most)
		}
	}
}

// TestHeavyEventsAreNotHeld has a member send one heavy event in each watch and nothing more: a client would hold its
// buffers for as long as the watch is open.
func TestHeavyEventsAreNotHeld(t *testing.T) {
	const watches = 24 // which would hold 400 MiB
	for name, event := range heavyEvents() {
		t.Run(name, func(t *testing.T) {
			m := newEventful(t, func(w http.ResponseWriter) { _, _ = io.WriteString(w, event) })
			before := heldNow()
			for range watches {
				w := m.watch()
				if told := m.next(w); told != watch.Modified {
					t.Fatalf("the watch tells %q, want the event", told)
				}
				go func() {
					for range w.ResultChan() { // its end
						continue
					}
				}()
				m.awaitEvents(eventBytesKept)
			}
			held := heldNow() - before
			if held > 2*eventBytesKept {
				t.Errorf("%d watches hold %d MiB of an event of %d bytes each", watches, held>>20, len(event))
			}
			t.Logf("%d watches hold %d MiB of an event of %d bytes each", watches, held>>20, len(event))
		})
	}
}

// TestEventsAreNotDecodedAllAtOnce has a member hold back the ends of heavy events until all of them are there.
func TestEventsAreNotDecodedAllAtOnce(t *testing.T) {
	const watches = 40
	for name, event := range heavyEvents() {
		t.Run(name, func(t *testing.T) {
			m := newEventful(t, func(w http.ResponseWriter) { _, _ = io.WriteString(w, event[:len(event)-1]) })
			weight := max(len(event), bytesPerElement*strings.Count(event, "{}"))
			before := heldNow()
			refused := make(chan watch.Event, watches)
			for range watches {
				w := m.watch()
				go func() {
					for told := range w.ResultChan() {
						refused <- told
					}
				}()
			}
			for range watches - eventBytesMax/(heldPerByte*weight) {
				select {
				case told := <-refused:
					if told.Type != watch.Error || !strings.Contains(told.Object.(*metav1.Status).Message, "of the events of one cluster") {
						t.Fatalf("the watch tells %v, want an error that names the limit", told)
					}
				case <-time.After(5 * time.Minute):
					t.Fatal("all of them are taken")
				}
			}
			m.awaitEvents(eventBytesMax)
			held := heldNow() - before
			if held > 2*eventBytesMax {
				t.Errorf("%d watches hold %d MiB of an event of %d bytes each", watches, held>>20, len(event))
			}
			t.Logf("%d watches hold %d MiB of an event of %d bytes each", watches, held>>20, len(event))
		})
	}
}

// TestWatchesOfOrdinaryEventsGoOn has a thousand watches tell of ordinary objects, and stay open.
func TestWatchesOfOrdinaryEventsGoOn(t *testing.T) {
	const watches, events = 1000, 3
	event := `{"type":"ADDED","object":{"a":["` + strings.Repeat("a", lightEventMax/2) + `"]}}` + "\n"
	limits := newLimiter(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(strings.Repeat(event, events) + "{"))}, nil
	}, func(err *LimitError) { t.Errorf("refused: %v", err) })
	text := make([]byte, events*len(event))
	for i := range watches {
		request := httptest.NewRequestWithContext(ReducedContext(t.Context()), http.MethodGet, "http://member"+pathOf(i)+"?watch=true&resourceVersion=1", nil)
		response, err := (&limitedTransport{limits: limits}).RoundTrip(request)
		expect.NoError(t, err)
		defer response.Body.Close() //nolint:errcheck // nothing can be done about it
		if _, err := io.ReadFull(response.Body, text); err != nil {
			t.Fatalf("watch %d of ordinary events ends: %v", i, err)
		}
	}
}

// TestAWatchThatBeginsWithAHeavyListTellsSomething has one begin with heavy objects while too much is held: a client
// that is told of nothing after them would list anew.
func TestAWatchThatBeginsWithAHeavyListTellsSomething(t *testing.T) {
	const end = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`
	heavy := `{"a":"` + strings.Repeat("a", lightEventMax) + `"}`
	text := heavy + end + "{}{}"
	pieces := []string{heavy, end[:len(end)-1], end[len(end)-1:], "{}", "{}"}
	limits := newLimiter(func(*http.Request) (*http.Response, error) {
		var body []io.Reader
		for _, piece := range pieces {
			body = append(body, strings.NewReader(piece))
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(io.MultiReader(body...))}, nil
	}, func(err *LimitError) { t.Errorf("refused: %v", err) })
	limits.budget.addEvents(&answerShare{}, eventBytesKept)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://member"+watchPath+"&sendInitialEvents=true", nil)
	response, err := (&limitedTransport{limits: limits}).RoundTrip(request)
	expect.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	read, err := io.ReadAll(response.Body)
	if want := strings.TrimSuffix(text, "{}"); err != nil || string(read) != want {
		t.Errorf("the client reads %d bytes, want %d: the list, one event, and its end; %v", len(read), len(want), err)
	}
}

// TestAnswersThatAreClosedHoldNothing reads on in an answer that another closes.
func TestAnswersThatAreClosedHoldNothing(t *testing.T) {
	b, s := &budget{}, &answerShare{}
	b.addEvents(s, 1)
	b.addBuffered(s, 1)
	b.closeAnswer(s)
	b.addEvents(s, 1)
	b.addBuffered(s, 1)
	b.closeAnswer(s)
	if b.events != 0 || b.buffered != 0 {
		t.Errorf("%d bytes of events and %d of others count", b.events, b.buffered)
	}
}
