// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/capstan-io/capstan/internal/server/tracing"
)

const (
	// timeout is how long a collector may take to answer.
	timeout = 10 * time.Second
	// tracesPath is where a collector takes spans, if only its address is given.
	tracesPath = "v1/traces"
	// protocol is the one that this package speaks; to ask for another is a mistake.
	protocol = "http/json"
)

// StartTracing returns the Tracer of a program as the environment asks for it, and what ends
// it. The Tracer is nil unless OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set. What goes wrong later, the SDK tells the
// otel.ErrorHandler of the process.
func StartTracing(getenv func(string) string, program string) (tracer *tracing.Tracer, stop func(context.Context) error, err error) {
	address, err := spanEndpoint(getenv)
	if err != nil || address == "" {
		return nil, func(context.Context) error { return nil }, err
	}
	client, err := httpClient(getenv)
	if err != nil {
		return nil, nil, err
	}
	headers, err := readHeaders(lookupVariable(getenv, "HEADERS"))
	if err != nil {
		return nil, nil, err
	}
	// The SDK reads samplers, limits of batches and attributes of the resource from
	// the environment itself, and tells its error handler what it cannot read. Merge
	// fails for two schemas only, and neither has one.
	described, _ := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "capstan-"+program)), resource.Environment())
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(described),
		sdktrace.WithBatcher(&exporter{client: client, address: address, headers: headers}),
	)
	return tracing.NewTracer(provider), provider.Shutdown, nil
}

// lookupVariable returns a variable for traces, or the one for all signals.
func lookupVariable(getenv func(string) string, name string) string {
	if value := getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); value != "" {
		return value
	}
	return getenv("OTEL_EXPORTER_OTLP_" + name)
}

// spanEndpoint returns the URL to send spans to; "" if tracing is off.
func spanEndpoint(getenv func(string) string) (string, error) {
	address := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	whole := true
	if address == "" {
		address = getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
		whole = false
	}
	if address == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return "", nil
	}
	if asked := lookupVariable(getenv, "PROTOCOL"); asked != "" && asked != protocol {
		return "", fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not supported; there is %q, which collectors take at port 4318", asked, protocol)
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return "", fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %q is not a URL such as http://collector.monitoring:4318", address)
	}
	if !whole {
		parsed = parsed.JoinPath(tracesPath)
	}
	return parsed.String(), nil
}

func httpClient(getenv func(string) string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	if path := lookupVariable(getenv, "CERTIFICATE"); path != "" {
		pem, err := os.ReadFile(path) //nolint:gosec // who starts the program says which
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		authorities := x509.NewCertPool()
		if !authorities.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate", path)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, Timeout: timeout}, nil
}

// readHeaders reads NAME=VALUE,NAME=VALUE, where values are percent-encoded. Values may
// be secrets, so errors do not tell them.
func readHeaders(text string) (http.Header, error) {
	headers := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, encoded, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(encoded))
		if !found || err != nil {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS: it has to be NAME=VALUE,NAME=VALUE with values percent-encoded")
		}
		headers.Set(strings.TrimSpace(name), value)
	}
	return headers, nil
}
