// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/server/tracing"
)

// traced begins the span of a pass that delivers a work which the hub has not heard
// of yet, in this generation. Other passes are in no trace.
func traced(ctx context.Context, p *pass) (context.Context, *tracing.Span) {
	tracer := p.cluster.options.Tracer
	if tracer == nil || p.work == nil || p.work.DeletionTimestamp != nil {
		return ctx, nil
	}
	applied := meta.FindStatusCondition(p.work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	if applied != nil && applied.ObservedGeneration == p.work.Generation {
		return ctx, nil
	}
	ctx, p.span = tracer.Of(ctx, tracing.SpanDeliver, p.work)
	return ctx, p.span
}

// applyTraced is apply, as a part of the trace.
func applyTraced(p *pass, ctx context.Context) error {
	return within(ctx, p, tracing.SpanApply, (*pass).apply)
}

// concludeTraced is conclude, as a part of the trace.
func concludeTraced(p *pass, ctx context.Context) error {
	return within(ctx, p, tracing.SpanReport, (*pass).conclude)
}

func within(ctx context.Context, p *pass, name string, of phase) error {
	if p.span == nil {
		return of(p, ctx)
	}
	ctx, span := p.cluster.options.Tracer.Start(ctx, name)
	err := of(p, ctx)
	span.End(err)
	return err
}
