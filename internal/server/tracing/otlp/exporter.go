// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// answerMax is how much of an answer is read, so that the connection can be used
// again.
const answerMax = 64 << 10

// exporter sends spans as OTLP has them in JSON: IDs are in hex, and 64-bit numbers
// are strings.
type exporter struct {
	client  *http.Client
	address string
	headers http.Header
}

type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   described    `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	described struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope      `json:"scope"`
		Spans []jsonSpan `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	jsonSpan struct {
		TraceID      string      `json:"traceId"`
		SpanID       string      `json:"spanId"`
		ParentSpanID string      `json:"parentSpanId,omitempty"`
		Name         string      `json:"name"`
		Kind         int         `json:"kind"`
		Start        string      `json:"startTimeUnixNano"`
		End          string      `json:"endTimeUnixNano"`
		Attributes   []keyValue  `json:"attributes,omitempty"`
		Status       *spanStatus `json:"status,omitempty"`
	}
	spanStatus struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code"`
	}
	keyValue struct {
		Key   string   `json:"key"`
		Value anyValue `json:"value"`
	}
	anyValue struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
)

// Numbers of OTLP.
const (
	statusError = 2
)

// ExportSpans is part of sdktrace.SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	if err := e.sendSpans(ctx, spans); err != nil {
		return lostError{spans: len(spans), cause: err}
	}
	return nil
}

func (e *exporter) sendSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	body, err := json.Marshal(encodeRequest(spans))
	if err != nil {
		return fmt.Errorf("encoding spans: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, e.address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("sending spans: %w", err)
	}
	post.Header = e.headers.Clone()
	post.Header.Set("Content-Type", "application/json")
	response, err := e.client.Do(post)
	if err != nil {
		return fmt.Errorf("sending spans: %w", err) // which has the URL, without a password
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, answerMax))
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("sending spans to %s: %s", post.URL.Redacted(), response.Status)
	}
	return nil
}

// Shutdown is part of sdktrace.SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// encodeRequest puts spans of one process, which have one resource and one scope.
func encodeRequest(spans []sdktrace.ReadOnlySpan) exportRequest {
	group := scopeSpans{Scope: scope{Name: spans[0].InstrumentationScope().Name}}
	for _, s := range spans {
		group.Spans = append(group.Spans, encodeSpan(s))
	}
	return exportRequest{ResourceSpans: []resourceSpans{{
		Resource:   described{Attributes: encodeAttributes(spans[0].Resource().Attributes())},
		ScopeSpans: []scopeSpans{group},
	}}}
}

func encodeSpan(s sdktrace.ReadOnlySpan) jsonSpan {
	encoded := jsonSpan{
		TraceID: s.SpanContext().TraceID().String(), SpanID: s.SpanContext().SpanID().String(),
		Name: s.Name(), Kind: int(s.SpanKind()),
		Start: formatNanos(s.StartTime()), End: formatNanos(s.EndTime()), Attributes: encodeAttributes(s.Attributes()),
	}
	if s.Parent().SpanID().IsValid() {
		encoded.ParentSpanID = s.Parent().SpanID().String()
	}
	if s.Status().Code == codes.Error {
		encoded.Status = &spanStatus{Code: statusError, Message: s.Status().Description}
	}
	return encoded
}

func formatNanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func encodeAttributes(attributes []attribute.KeyValue) []keyValue {
	var encoded []keyValue
	for _, a := range attributes {
		var value anyValue
		switch a.Value.Type() {
		case attribute.INT64:
			number := strconv.FormatInt(a.Value.AsInt64(), 10)
			value.Int = &number
		case attribute.BOOL:
			is := a.Value.AsBool()
			value.Bool = &is
		default:
			text := a.Value.String()
			value.String = &text
		}
		encoded = append(encoded, keyValue{Key: string(a.Key), Value: value})
	}
	return encoded
}
