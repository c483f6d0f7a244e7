// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// recorded returns a Tracer and what it has recorded.
func recorded() (*Tracer, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	return NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))), spans
}

func hub(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, workv1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).Build()
}

func newWork() *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "hello", Generation: 1}}
}

// TestOneTraceThereAndBack: hub and agent are processes of their own, which share
// nothing but the work.
func TestOneTraceThereAndBack(t *testing.T) {
	ctx := t.Context()
	hubTracer, hubSpans := recorded()
	agentTracer, agentSpans := recorded()
	stored := hub(t)
	expect.NoError(t, hubTracer.WrapClient(stored).Create(ctx, newWork()))
	seen := &workv1.ManifestWork{}
	expect.NoError(t, stored.Get(ctx, client.ObjectKeyFromObject(newWork()), seen))
	within, deliver := agentTracer.StartWorkSpan(ctx, SpanDeliver, seen)
	_, apply := agentTracer.StartSpan(within, SpanApply)
	apply.EndSpan(nil)
	deliver.EndSpan(nil)
	reportedWork := seen.DeepCopy()
	reportedWork.Generation = 1
	reportedWork.Status.Conditions = []metav1.Condition{{Type: workv1.ManifestWorkConditionApplied, ObservedGeneration: 1}}
	hubTracer.SeenHandler(ctx).OnUpdate(seen, reportedWork)
	hubTracer.SeenHandler(ctx).OnUpdate(reportedWork, reportedWork) // nothing new

	at, on := hubSpans.GetSpans(), agentSpans.GetSpans()
	if len(at) != 2 || len(on) != 2 {
		t.Fatalf("got %d spans of the hub and %d of the agent, want 2 of each", len(at), len(on))
	}
	begin := at[0].SpanContext
	for _, span := range append(on, at[1]) {
		if span.SpanContext.TraceID() != begin.TraceID() {
			t.Errorf("%s is in trace %s, want %s", span.Name, span.SpanContext.TraceID(), begin.TraceID())
		}
	}
	if on[1].Parent.SpanID() != begin.SpanID() || at[1].Parent.SpanID() != begin.SpanID() || at[1].Name != SpanSeen {
		t.Errorf("the agent's span and that of the status have to follow the one that wrote the work")
	}
}

func TestEveryChangeOfTheSpecIsATraceOfItsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		patch  client.Patch
		traced bool
	}{
		"Merge":  {"a merge carries the trace", client.RawPatch(types.MergePatchType, []byte(`{"spec":{"deleteOption":{"propagationPolicy":"Orphan"}}}`)), true},
		"JSON":   {"so does a JSON patch", client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec","value":{}}]`)), true},
		"Labels": {"what does not change the spec delivers nothing", client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), false},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, spans := recorded()
			c := tracer.WrapClient(hub(t))
			work := newWork()
			expect.NoError(t, c.Create(t.Context(), work))
			before := work.Annotations[fleetv1alpha1.AnnotationTraceparent]
			expect.NoError(t, c.Patch(t.Context(), work, test.patch))
			expect.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(work), work))
			if changed := work.Annotations[fleetv1alpha1.AnnotationTraceparent] != before; changed != test.traced {
				t.Errorf("%s: the trace has changed: %t", test.reason, changed)
			}
			if got := spans.GetSpans(); test.traced && (len(got) != 2 || got[0].SpanContext.TraceID() == got[1].SpanContext.TraceID()) {
				t.Errorf("%s: got %d spans, want two of different traces", test.reason, len(got))
			}
		})
	}
}

// TestAJSONPatchAndItsTraceAreOneRequest: what is refused must not change the work, or
// its change would bring the same request again and again.
func TestAJSONPatchAndItsTraceAreOneRequest(t *testing.T) {
	const uid = `{"op":"test","path":"/metadata/uid","value":"u1"}`
	traced := func(more string) string {
		return `[` + uid + `,{"op":"replace","path":"/spec","value":{"manifestConfigs":[]}},` + more + `]`
	}
	added := traced(`{"op":"add","path":"/metadata/annotations/fleet.capstan.io~1traceparent","value":"TRACE"}`)
	began := traced(`{"op":"test","path":"/metadata/annotations","value":null},{"op":"add","path":"/metadata/annotations","value":{"fleet.capstan.io/traceparent":"TRACE"}}`)
	plain := strings.TrimSuffix(traced(""), ",]") + "]"
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ManifestWork"}, "hello", nil)
	for name, test := range map[string]struct {
		reason      string
		annotations map[string]string
		answers     []error
		want        []string
	}{
		"Some":    {"annotations of others stay", map[string]string{"a": "b"}, []error{nil}, []string{added}},
		"None":    {"the first annotation makes their map, if there is none", nil, []error{nil}, []string{began}},
		"Refused": {"a refusal leaves nothing behind", nil, []error{errors.New("no")}, []string{began}},
		"Stale":   {"annotations that are not as they were cost the trace, not the change", nil, []error{invalid, nil}, []string{began, plain}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			stored := interceptor.NewClient(hub(t), interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
					body, err := patch.Data(o)
					sent = append(sent, string(body))
					if n := len(sent); n <= len(test.answers) {
						return errors.Join(err, test.answers[n-1])
					}
					return err
				},
			})
			tracer, spans := recorded()
			work := newWork()
			work.Annotations = test.annotations
			err := tracer.WrapClient(stored).Patch(t.Context(), work, client.RawPatch(types.JSONPatchType, []byte(plain)))
			if last := test.answers[len(test.answers)-1]; (err != nil) != (last != nil) {
				t.Errorf("%s: got error %v, want %v", test.reason, err, last)
			}
			if len(spans.GetSpans()) != 1 || len(sent) != len(test.want) {
				t.Fatalf("%s: got the requests %q, want %q", test.reason, sent, test.want)
			}
			of := &Span{trace.SpanFromContext(trace.ContextWithSpanContext(t.Context(), spans.GetSpans()[0].SpanContext))}
			for i, want := range test.want {
				sameJSON(t, sent[i], strings.ReplaceAll(want, "TRACE", of.FormatTraceparent()))
			}
		})
	}
}

func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var a, b any
	expect.NoError(t, errors.Join(json.Unmarshal([]byte(got), &a), json.Unmarshal([]byte(want), &b)))
	if diff := cmp.Diff(b, a); diff != "" {
		t.Errorf("the request, -want +got:\n%s", diff)
	}
}

func TestNothingIsWrittenAndNothingAllocatedWhenOff(t *testing.T) {
	var off *Tracer
	c := hub(t)
	if off.WrapClient(c) != client.Client(c) {
		t.Error("a client is wrapped although tracing is off")
	}
	work, ctx := newWork(), t.Context()
	if n := testing.AllocsPerRun(100, func() {
		within, span := off.StartWorkSpan(ctx, SpanDeliver, work)
		_, inner := off.StartSpan(within, SpanApply)
		inner.EndSpan(nil)
		span.EndSpan(nil)
	}); n != 0 {
		t.Errorf("a delivery that is not traced allocates %v times", n)
	}
}

func TestTracesOfOthersAreReadWithCare(t *testing.T) {
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for name, test := range map[string]struct {
		reason, text string
		want         bool
	}{
		"Version00": {"the version that there is", "00-" + id + "-" + parent + "-01", true},
		"Unsampled": {"one that is not recorded is one", "00-" + id + "-" + parent + "-00", true},
		"Later":     {"later versions may have more", "01-" + id + "-" + parent + "-01-more", true},
		"Longer":    {"this version may not", "00-" + id + "-" + parent + "-01-more", false},
		"Reserved":  {"ff is no version", "ff-" + id + "-" + parent + "-01", false},
		"NoID":      {"zeros are no ID", "00-00000000000000000000000000000000-" + parent + "-01", false},
		"NoFlags":   {"flags are two digits", "00-" + id + "-" + parent + "-zz", false},
		"Nonsense":  {"text is none", "hello", false},
		"Nothing":   {"nor is nothing", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := parseTraceparent(test.text)
			if got.IsValid() != test.want || test.want && (got.TraceID().String() != id || !got.IsRemote()) {
				t.Errorf("%s: got %v", test.reason, got)
			}
			if test.want && test.text[len("00-"):] == id+"-"+parent+"-00" && got.TraceFlags() != trace.TraceFlags(0) {
				t.Errorf("%s: it is sampled", test.reason)
			}
		})
	}
}
