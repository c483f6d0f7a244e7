// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package otlp sends spans to an OpenTelemetry collector, if the environment of the
// process names one.
//
// It speaks OTLP over HTTP with JSON, which every collector takes at port 4318.
// OpenTelemetry's own exporter would bring Protobuf definitions and gRPC into every
// agent. It takes the variables that the specification has for this, and does not
// retry: a trace that is lost is not missed. Losses logs how many are.
package otlp
