// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// WrapClient returns a client that lets the works which it creates, or whose spec it
// changes, carry a trace; the same client for a Tracer that is nil.
func (t *Tracer) WrapClient(c client.Client) client.Client {
	if t == nil {
		return c
	}
	return &tracedWriter{Client: c, tracer: t}
}

type tracedWriter struct {
	client.Client
	tracer *Tracer
}

// Create creates an object; a work with the span that creates it.
func (w *tracedWriter) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	work, ok := object.(*workv1.ManifestWork)
	if !ok {
		return w.Client.Create(ctx, object, options...) //nolint:wrapcheck // it is a client
	}
	ctx, span := w.tracer.StartWorkSpan(ctx, SpanWrite, work)
	metav1.SetMetaDataAnnotation(&work.ObjectMeta, fleetv1alpha1.AnnotationTraceparent, span.FormatTraceparent())
	err := w.Client.Create(ctx, work, options...)
	span.EndSpan(err)
	return err //nolint:wrapcheck // it is a client
}

// Patch changes an object; of a work whose spec changes, the trace, too, in the same
// request: what is refused leaves no trace. A JSON patch cannot say that without knowing
// whether the work has annotations, so with one, pass a work that has those it is known
// to have.
func (w *tracedWriter) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	work, ok := object.(*workv1.ManifestWork)
	if !ok {
		return w.Client.Patch(ctx, object, patch, options...) //nolint:wrapcheck // it is a client
	}
	body, err := patch.Data(work)
	if err != nil {
		return fmt.Errorf("encoding a change of ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	fresh := work.DeepCopy() // that of an earlier change has ended
	delete(fresh.Annotations, fleetv1alpha1.AnnotationTraceparent)
	switch {
	case patch.Type() == types.MergePatchType && changesSpec(body):
		ctx, span := w.tracer.StartWorkSpan(ctx, SpanWrite, fresh)
		err := w.patchMerge(ctx, work, body, span.FormatTraceparent(), options)
		span.EndSpan(err)
		return err
	case patch.Type() == types.JSONPatchType:
		ctx, span := w.tracer.StartWorkSpan(ctx, SpanWrite, fresh)
		err := w.patchJSON(ctx, work, body, span.FormatTraceparent(), options)
		if apierrors.IsInvalid(err) {
			// Its annotations may have changed, and no delivery fails for a trace.
			err = w.Client.Patch(ctx, work, patch, options...)
		}
		span.EndSpan(err)
		return err
	}
	return w.Client.Patch(ctx, work, patch, options...) //nolint:wrapcheck // it is a client
}

// changesSpec reports whether a merge patch has a spec.
func changesSpec(body []byte) bool {
	var has struct {
		Spec json.RawMessage `json:"spec"`
	}
	return json.Unmarshal(body, &has) == nil && has.Spec != nil
}

// annotationsPath is where a JSON patch finds annotations.
const annotationsPath = "/metadata/annotations"

// patchJSON sends a JSON patch with the trace in it.
func (w *tracedWriter) patchJSON(ctx context.Context, work *workv1.ManifestWork, body []byte, traceparent string, options []client.PatchOption) error {
	var operations []any
	if err := json.Unmarshal(body, &operations); err != nil {
		return fmt.Errorf("reading a change of ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	if len(work.Annotations) > 0 {
		member := annotationsPath + "/" + strings.ReplaceAll(fleetv1alpha1.AnnotationTraceparent, "/", "~1")
		operations = append(operations, map[string]any{"op": "add", "path": member, "value": traceparent})
	} else {
		operations = append(operations, // null is also what is not there
			map[string]any{"op": "test", "path": annotationsPath, "value": nil},
			map[string]any{"op": "add", "path": annotationsPath, "value": map[string]string{fleetv1alpha1.AnnotationTraceparent: traceparent}})
	}
	traced, err := json.Marshal(operations)
	if err != nil {
		return fmt.Errorf("encoding a change of ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	return w.Client.Patch(ctx, work, client.RawPatch(types.JSONPatchType, traced), options...) //nolint:wrapcheck // it is a client
}

// patchMerge sends a merge patch with the trace in it.
func (w *tracedWriter) patchMerge(ctx context.Context, work *workv1.ManifestWork, body []byte, traceparent string, options []client.PatchOption) error {
	content := map[string]any{}
	if err := json.Unmarshal(body, &content); err != nil {
		return fmt.Errorf("reading a change of ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	child := func(of map[string]any, name string) map[string]any {
		inner, ok := of[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			of[name] = inner
		}
		return inner
	}
	child(child(content, "metadata"), "annotations")[fleetv1alpha1.AnnotationTraceparent] = traceparent
	traced, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encoding a change of ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	return w.Client.Patch(ctx, work, client.RawPatch(types.MergePatchType, traced), options...) //nolint:wrapcheck // it is a client
}
