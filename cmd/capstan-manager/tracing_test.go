// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/capstan-io/capstan/internal/server/metrics"
)

const (
	endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"
	collector        = "http://collector.monitoring:4318"
)

// TestNoProgramStopsForItsTelemetry: what is wrong about it is one line of the log.
func TestNoProgramStopsForItsTelemetry(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		env     map[string]string
		traced  bool
		problem string
	}{
		"Off":      {"nobody asks", nil, false, ""},
		"On":       {"an endpoint asks", map[string]string{endpointVariable: collector}, true, ""},
		"Protocol": {"there is no gRPC", map[string]string{endpointVariable: collector, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, "grpc"},
		"File":     {"the file is missing", map[string]string{endpointVariable: collector, "OTEL_EXPORTER_OTLP_CERTIFICATE": "/no/ca.crt"}, false, "/no/ca.crt"},
		"URL":      {"this is no URL", map[string]string{endpointVariable: "collector:4318"}, false, "collector:4318"},
		"Headers":  {"these are no headers", map[string]string{endpointVariable: collector, "OTEL_EXPORTER_OTLP_HEADERS": "me"}, false, "HEADERS"},
	} {
		t.Run(name, func(t *testing.T) {
			core, lines := observer.New(zapcore.InfoLevel)
			got := startTracer(zapr.NewLogger(zap.New(core)), "test", func(name string) string { return test.env[name] })
			if (got != nil) != test.traced {
				t.Errorf("%s: got a tracer: %t, want one: %t", test.reason, got != nil, test.traced)
			}
			switch all := lines.All(); {
			case test.problem == "" && len(all) != 0, test.problem != "" && len(all) != 1:
				t.Errorf("%s: got the lines %v, want one if something is wrong", test.reason, all)
			case test.problem != "":
				if problem, _ := all[0].ContextMap()["problem"].(string); !strings.Contains(problem, test.problem) {
					t.Errorf("%s: got the problem %q, want one about %q", test.reason, problem, test.problem)
				}
			}
		})
	}
}

// TestAgentsStartWithoutTraces: the variables are those of the process.
func TestAgentsStartWithoutTraces(t *testing.T) {
	t.Setenv(endpointVariable, collector)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	core, lines := observer.New(zapcore.InfoLevel)
	flags := defaultWorkFlags()
	options, err := flags.workPartOptions(zapr.NewLogger(zap.New(core)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if options.Tracer != nil || lines.Len() != 0 {
		t.Error("reading the flags has started something")
	}
	if _, err := newWorkPart(withTracer(options), metrics.NewCollectorGroup(nil)); err != nil {
		t.Fatalf("an agent does not start for its telemetry: %v", err)
	}
	if lines.Len() != 1 {
		t.Errorf("got the lines %v, want one about the traces that there are not", lines.All())
	}
}
