// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// SeenHandler returns a handler for an informer of works that ends their traces: when the
// hub sees the status of what was delivered.
func (t *Tracer) SeenHandler(ctx context.Context) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		was, knew := before.(*workv1.ManifestWork)
		is, knows := after.(*workv1.ManifestWork)
		if !knew || !knows || is.Annotations[fleetv1alpha1.AnnotationTraceparent] == "" || reportedGeneration(was) == reportedGeneration(is) || reportedGeneration(is) != is.Generation {
			return
		}
		_, span := t.StartWorkSpan(ctx, SpanSeen, is)
		span.EndSpan(nil)
	}}
}

// reportedGeneration is the generation whose objects the agent says it has applied, or failed
// to apply.
func reportedGeneration(work *workv1.ManifestWork) int64 {
	if applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied); applied != nil {
		return applied.ObservedGeneration
	}
	return 0
}
