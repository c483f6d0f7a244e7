// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/server/tracing"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestTracingIsOffUnlessAskedFor(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		env    map[string]string
		on     bool
		err    string
	}{
		"Default":  {"nobody asks", nil, false, ""},
		"On":       {"an endpoint asks", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true, ""},
		"Traces":   {"so does one for traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/x"}, true, ""},
		"Disabled": {"the SDK can be switched off", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, false, ""},
		"None":     {"and traces alone", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, false, ""},
		"GRPC":     {"what is not supported is told", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, "grpc"},
		"NoURL":    {"so is a mistake", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, false, "collector:4318"},
		"Headers":  {"values of headers are not told", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_HEADERS": "secret"}, false, "HEADERS"},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, _, err := StartTracing(environment(test.env), "test")
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: got error %v, want one about %q", test.reason, err, test.err)
				}
				return
			}
			if err != nil || (tracer != nil) != test.on {
				t.Errorf("%s: got a tracer: %t, %v", test.reason, tracer != nil, err)
			}
		})
	}
}

// receiver is a collector, as far as it takes spans.
type receiver struct {
	mu       sync.Mutex
	requests []*http.Request
	bodies   [][]byte
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests, r.bodies = append(r.requests, request), append(r.bodies, body)
	_, _ = io.WriteString(w, "{}")
}

// spans returns what the collector got in one request, as it has to be.
func (r *receiver) spans(t *testing.T) []jsonSpan {
	t.Helper()
	if len(r.requests) != 1 {
		t.Fatalf("got %d requests, want one with all spans", len(r.requests))
	}
	got := r.requests[0]
	if got.URL.Path != "/v1/traces" || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Authorization") != "Bearer me" {
		t.Errorf("got %s with %v", got.URL, got.Header)
	}
	var body exportRequest
	expect.NoError(t, json.Unmarshal(r.bodies[0], &body))
	if text := string(r.bodies[0]); !strings.Contains(text, `"capstan-test"`) || !strings.Contains(text, `{"key":"capstan.generation","value":{"intValue":"3"}}`) {
		t.Errorf("the service or the attributes are missing: %s", text)
	}
	return body.ResourceSpans[0].ScopeSpans[0].Spans
}

func TestACollectorGetsTheSpans(t *testing.T) {
	collector := &receiver{}
	server := httptest.NewServer(collector)
	defer server.Close()
	tracer, stop, err := StartTracing(environment(map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20me",
	}), "test")
	expect.NoError(t, err)
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "hello", Generation: 3}}
	ctx, outer := tracer.StartWorkSpan(t.Context(), tracing.SpanDeliver, work)
	_, inner := tracer.StartSpan(ctx, tracing.SpanApply)
	inner.EndSpan(errors.New("refused"))
	outer.EndSpan(nil)
	expect.NoError(t, stop(t.Context()))

	spans := collector.spans(t)
	if len(spans) != 2 || spans[0].Name != tracing.SpanApply || spans[1].Name != tracing.SpanDeliver {
		t.Fatalf("got the spans %v", spans)
	}
	child, parent := spans[0], spans[1]
	if child.TraceID != parent.TraceID || len(child.TraceID) != 32 || child.ParentSpanID != parent.SpanID || parent.ParentSpanID != "" {
		t.Errorf("got %v as a child of %v", child, parent)
	}
	if child.Status == nil || child.Status.Code != statusError || child.Status.Message != "refused" || parent.Status != nil {
		t.Errorf("got the statuses %v and %v", child.Status, parent.Status)
	}
}
