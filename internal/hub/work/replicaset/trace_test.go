// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/server/tracing"
)

// refusals is how many refused changes of a work are waited for.
const refusals = 3

// TestWorksThatExistGetATrace: each of them, whatever annotations it has, and in the
// request that changes its spec.
func TestWorksThatExistGetATrace(t *testing.T) {
	h := start(t)
	h.namespace, h.tracer = "default", tracing.NewTracer(sdktrace.NewTracerProvider())
	var refused, merged atomic.Int64
	h.run(t, counting(&refused, &merged))
	h.serve(t)
	h.clusters("bare", "annotated", "labelled", "refused")
	for cluster, annotations := range map[string]map[string]string{
		"bare": nil, "refused": nil, "annotated": {"theirs": "stays"},
		"labelled": {workv1.AnnotationReportHealth: "true"}, // which it loses before its spec is changed
	} {
		h.MustCreate(&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster, Name: "web-abcde", Annotations: annotations,
			Labels: map[string]string{workv1.LabelManifestWorkReplicaSet: "default.web", workv1.LabelPlacementName: "p"},
		}, Spec: manifests("v0")})
	}
	h.choose("p", []string{"annotated", "bare", "labelled", "refused"})
	set := h.set("v1", "p", all)
	h.delivered(set, "annotated=v1", "bare=v1", "labelled=v1", "refused=v0")
	h.UntilRight(func() string {
		if refused.Load() < refusals {
			return "no change was refused"
		}
		return ""
	})
	first := map[string]string{}
	for _, w := range h.listed(set) {
		first[w.Namespace] = w.Annotations[fleetv1alpha1.AnnotationTraceparent]
		if (first[w.Namespace] == "") != (w.Namespace == "refused") || w.Namespace == "annotated" && w.Annotations["theirs"] != "stays" {
			t.Errorf("the work of %s has the annotations %v", w.Namespace, w.Annotations)
		}
	}
	if n := merged.Load(); n != 0 {
		t.Errorf("traces were written by %d requests of their own", n)
	}
	h.turn(set, "v2")
	h.delivered(set, "annotated=v2", "bare=v2", "labelled=v2", "refused=v0")
	for _, w := range h.listed(set) {
		trace, changed := w.Annotations[fleetv1alpha1.AnnotationTraceparent], w.Namespace != "refused"
		if (trace != first[w.Namespace]) != changed || changed && w.Generation != 3 {
			t.Errorf("the work of %s has generation %d and the trace %q, and had %q before", w.Namespace, w.Generation, trace, first[w.Namespace])
		}
	}
}

// counting refuses the changes of the spec in one cluster, and counts them and the
// merges that are none of labels.
func counting(refused, merged *atomic.Int64) interceptor.Funcs {
	return interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if _, isWork := o.(*workv1.ManifestWork); !isWork {
				return c.Patch(ctx, o, p, options...)
			}
			if p.Type() == types.JSONPatchType && o.GetNamespace() == "refused" {
				refused.Add(1)
				return errors.New("the work is refused")
			}
			if p.Type() == types.MergePatchType && o.GetNamespace() != "labelled" {
				merged.Add(1)
			}
			return c.Patch(ctx, o, p, options...)
		},
	}
}
