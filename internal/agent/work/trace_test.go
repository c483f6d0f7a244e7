// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/tracing"
)

// TestADeliveryIsPartOfTheTraceOfTheHub lets an agent apply a work that carries a
// trace, and looks at its spans and at the object on the member.
func TestADeliveryIsPartOfTheTraceOfTheHub(t *testing.T) {
	const name, id, parent = "traced", "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	s := newLab(t).scene(t, name)
	spans := tracetest.NewInMemoryExporter()
	s.start(agentOptions{part: PartOptions{Tracer: tracing.NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))}})
	work := s.work("whole", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"settings"},"data":{"key":"value"}}`, s.ns()))
	metav1.SetMetaDataAnnotation(&work.ObjectMeta, fleetv1alpha1.AnnotationTraceparent, "00-"+id+"-"+parent+"-01")
	s.create(work)

	s.eventually("the delivery is traced", func() error {
		found := map[string]bool{}
		for _, span := range spans.GetSpans() {
			if span.SpanContext.TraceID().String() != id {
				t.Fatalf("%s is in trace %s, want that of the hub", span.Name, span.SpanContext.TraceID())
			}
			if span.Name == tracing.SpanDeliver && span.Parent.SpanID().String() != parent {
				t.Fatalf("the parent of %s is %s, want the span of the hub", span.Name, span.Parent.SpanID())
			}
			found[span.Name] = true
		}
		for _, want := range []string{tracing.SpanDeliver, tracing.SpanApply, tracing.SpanReport} {
			if !found[want] {
				return fmt.Errorf("there is no span %q", want)
			}
		}
		return nil
	})
	settings := &corev1.ConfigMap{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "settings"}, settings); err != nil {
		t.Fatal(err)
	}
	if _, has := settings.Annotations[fleetv1alpha1.AnnotationTraceparent]; has {
		t.Error("the trace is on the object of the member: it has to stay on the hub")
	}
}
