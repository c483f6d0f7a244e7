// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tracing follows what is delivered from the hub to a member and back, as
// spans of OpenTelemetry: the hub writes a work, the agent applies it and reports,
// the hub sees the report. An annotation of the work carries the trace from one to
// the other.
//
// It uses OpenTelemetry's interfaces only. Where spans go is the business of the
// program, with package otlp. A Tracer that is nil traces nothing and writes
// nothing: tracing is off unless somebody asks for it.
package tracing
