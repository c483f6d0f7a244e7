// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/server/tracing"
)

// traceDelivery begins the span of a pass that delivers a work which the hub has not heard
// of yet, in this generation. Other passes are in no trace.
func traceDelivery(ctx context.Context, p *workPass) (context.Context, *tracing.Span) {
	tracer := p.cluster.options.Tracer
	if tracer == nil || p.work == nil || p.work.DeletionTimestamp != nil {
		return ctx, nil
	}
	applied := meta.FindStatusCondition(p.work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	if applied != nil && applied.ObservedGeneration == p.work.Generation {
		return ctx, nil
	}
	ctx, p.span = tracer.StartWorkSpan(ctx, tracing.SpanDeliver, p.work)
	return ctx, p.span
}

// applyTraced is applyWaves, as a part of the trace.
func applyTraced(p *workPass, ctx context.Context) error {
	return withinSpan(ctx, p, tracing.SpanApply, (*workPass).applyWaves)
}

// concludeTraced is concludeDelivery, as a part of the trace.
func concludeTraced(p *workPass, ctx context.Context) error {
	return withinSpan(ctx, p, tracing.SpanReport, (*workPass).concludeDelivery)
}

func withinSpan(ctx context.Context, p *workPass, name string, of passPhase) error {
	if p.span == nil {
		return of(p, ctx)
	}
	ctx, span := p.cluster.options.Tracer.StartSpan(ctx, name)
	err := of(p, ctx)
	span.EndSpan(err)
	return err
}
