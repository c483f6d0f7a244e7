// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/server/tracing"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// logger returns one, and what it has logged.
func logger() (logr.Logger, *[]string) {
	lines := &[]string{}
	return funcr.New(func(_, args string) { *lines = append(*lines, args) }, funcr.Options{}), lines
}

func TestLossesAreCountedAndSeldomTold(t *testing.T) {
	log, lines := logger()
	now := testclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	losses := NewLosses(log, now)
	for i := range 100 {
		losses.Handle(lostError{spans: 2, cause: fmt.Errorf("connection %d is refused", i)})
		losses.Handle(errors.New("the sampler is none"))
	}
	if len(*lines) != 2 || !strings.Contains((*lines)[0], `"spans"=2 `) || !strings.Contains((*lines)[1], "the sampler is none") {
		t.Fatalf("got the lines %q, want one about the first loss and one about the sampler", *lines)
	}
	now.SetTime(now.Now().Add(tellEvery))
	losses.Handle(fmt.Errorf("wrapped: %w", lostError{spans: 1, cause: errors.New("the last one")}))
	if len(*lines) != 3 || !strings.Contains((*lines)[2], `"spans"=199 `) || !strings.Contains((*lines)[2], "the last one") {
		t.Errorf("got the lines %q, want one more about the 199 spans since", *lines)
	}
	for i := range 10 * kindsMax {
		losses.Handle(fmt.Errorf("mistake %d", i))
	}
	if len(*lines) > 3+kindsMax || len(losses.silent) > kindsMax {
		t.Errorf("got %d lines and %d kinds of errors, want at most %d kinds", len(*lines), len(losses.silent), kindsMax)
	}
	now.SetTime(now.Now().Add(tellEvery))
	before := len(*lines)
	losses.Handle(lostError{spans: 1, cause: errors.New("after many mistakes")})
	if len(*lines) != before+1 {
		t.Error("spans are lost without a line, since so many variables have mistakes")
	}
}

// TestWhatTheSDKCannotDoIsLogged: with the handler that the program sets.
func TestWhatTheSDKCannotDoIsLogged(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "region")
	log, lines := logger()
	otel.SetErrorHandler(NewLosses(log, testclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0))))
	tracer, stop, err := StartTracing(environment(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": strings.Replace(refusing.URL, "://", "://me:secret@", 1)}), "test")
	expect.NoError(t, err)
	if len(*lines) != 1 || !strings.Contains((*lines)[0], "region") {
		t.Errorf("got the lines %q, want one about the attribute without a value", *lines)
	}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "hello"}}
	for range 3 {
		_, span := tracer.StartWorkSpan(t.Context(), tracing.SpanDeliver, work)
		span.EndSpan(nil)
	}
	// The last spans are sent at the end, which gives the error back or hands it on.
	if err := stop(t.Context()); err != nil {
		otel.Handle(err)
	}
	if len(*lines) != 2 || !strings.Contains((*lines)[1], `"spans"=3 `) || !strings.Contains((*lines)[1], "404") || strings.Contains((*lines)[1], "secret") {
		t.Errorf("got the lines %q, want one more about three spans, without the password", *lines)
	}
}
