// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// scope is what OpenTelemetry calls the instrumentation that makes the spans.
const scope = "github.com/capstan-io/capstan"

// Names of the spans.
const (
	SpanWrite   = "hub: write work"
	SpanDeliver = "agent: deliver work"
	SpanApply   = "agent: apply objects"
	SpanReport  = "agent: report status"
	SpanSeen    = "hub: see status"
)

// Tracer makes spans. It is safe for concurrent use; nil makes none.
type Tracer struct{ tracer trace.Tracer }

// NewTracer returns a Tracer whose spans the provider takes.
func NewTracer(provider trace.TracerProvider) *Tracer {
	return &Tracer{tracer: provider.Tracer(scope)}
}

// Span is something that takes time. It is nil if nothing is traced.
type Span struct{ span trace.Span }

// StartSpan begins a span within that of the context, if there is one.
func (t *Tracer) StartSpan(ctx context.Context, name string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, &Span{span}
}

// StartWorkSpan begins a span about a work, within that of the context or, if there is none, of
// the trace that the work carries. Without either it begins a trace.
func (t *Tracer) StartWorkSpan(ctx context.Context, name string, work metav1.Object) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		if carried := parseTraceparent(work.GetAnnotations()[fleetv1alpha1.AnnotationTraceparent]); carried.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, carried)
		}
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(
		attribute.String("capstan.cluster", work.GetNamespace()),
		attribute.String("capstan.work", work.GetName()),
		attribute.Int64("capstan.generation", work.GetGeneration()),
	))
	return ctx, &Span{span}
}

// EndSpan ends the span; with an error if there is one.
func (s *Span) EndSpan(err error) {
	if s == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}

// FormatTraceparent is the span as a W3C traceparent, version 00; "" without one.
func (s *Span) FormatTraceparent() string {
	if s == nil {
		return ""
	}
	of := s.span.SpanContext()
	return fmt.Sprintf("00-%s-%s-%s", of.TraceID(), of.SpanID(), of.TraceFlags())
}

// parseTraceparent reads a W3C traceparent. Anybody who writes works may have written it, so
// what is none is as if it were not there. Of later versions, what version 00 has is
// read, as the standard asks for.
func parseTraceparent(text string) trace.SpanContext {
	parts := strings.Split(text, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 {
		return trace.SpanContext{}
	}
	id, err := trace.TraceIDFromHex(parts[1])
	if err != nil {
		return trace.SpanContext{}
	}
	parent, err := trace.SpanIDFromHex(parts[2])
	if err != nil {
		return trace.SpanContext{}
	}
	var flags byte
	if n, err := fmt.Sscanf(parts[3], "%02x", &flags); n != 1 || err != nil || len(parts[3]) != 2 {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: parent, TraceFlags: trace.TraceFlags(flags) & trace.FlagsSampled, Remote: true,
	})
}
