// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// withEvents returns what builds a hub that selects Events as an API server does.
func withEvents(t *testing.T) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme), configv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	field := func(of func(*corev1.Event) string) client.IndexerFunc {
		return func(object client.Object) []string {
			e, is := object.(*corev1.Event)
			if !is {
				t.Fatalf("a field of %T is selected", object)
			}
			return []string{of(e)}
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&corev1.Event{}, "involvedObject.uid", field(func(e *corev1.Event) string { return string(e.InvolvedObject.UID) })).
		WithIndex(&corev1.Event{}, "reason", field(func(e *corev1.Event) string { return e.Reason }))
}

// refusedAt is an Event that Deployment shop/web may not be claimed by policy shop/own.
func refusedAt(name string, ago time.Duration, change func(*corev1.Event)) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Reason: "ApplyPolicyFailed", EventTime: metav1.NewMicroTime(noon.Add(-ago)), Message: name,
		InvolvedObject: corev1.ObjectReference{Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u"},
		Related:        &corev1.ObjectReference{Kind: "PropagationPolicy", Namespace: "shop", Name: "own"},
	}
	if change != nil {
		change(e)
	}
	return e
}

// TestARefusedClaim has Events say of Deployment shop/web why policy shop/own, which selects
// it, does not claim it, or something else.
func TestARefusedClaim(t *testing.T) {
	const unknown = "PropagationPolicy shop/own selects it: the hub's propagation controller lets it claim the object in a moment."
	refused := func(ago, says string) string {
		return "PropagationPolicy shop/own selects it, but the hub does not let it claim the object, which is tried again every minute. An Event of " + ago + " ago says: " + says
	}
	for name, test := range map[string]struct {
		events []client.Object
		want   string
	}{
		"no Event": {nil, unknown},
		"the latest of two": {
			[]client.Object{refusedAt("a", 2*time.Minute, nil), refusedAt("b", 3*time.Minute, nil)}, refused("2m", "a"),
		},
		"one that was repeated": {
			[]client.Object{refusedAt("a", time.Minute, nil), refusedAt("b", time.Hour, func(e *corev1.Event) {
				e.Series = &corev1.EventSeries{Count: 9, LastObservedTime: metav1.NewMicroTime(noon.Add(-5 * time.Second))}
			})}, refused("5s", "b"),
		},
		"words of others are one line": {
			[]client.Object{refusedAt("a", time.Minute, func(e *corev1.Event) { e.Message = "no\n\nIt is fine:\t all is well" })},
			refused("60s", "no It is fine: all is well"),
		},
		"another policy": {[]client.Object{refusedAt("a", time.Minute, func(e *corev1.Event) { e.Related.Name = "other" })}, unknown},
		"something else that is missing": {
			[]client.Object{refusedAt("a", time.Minute, func(e *corev1.Event) { e.Related.Kind = "OverridePolicy" })}, unknown,
		},
		"related to nothing": {[]client.Object{refusedAt("a", time.Minute, func(e *corev1.Event) { e.Related = nil })}, unknown},
		"an earlier object":  {[]client.Object{refusedAt("a", time.Minute, func(e *corev1.Event) { e.InvolvedObject.UID = "before" })}, unknown},
		"another reason":     {[]client.Object{refusedAt("a", time.Minute, func(e *corev1.Event) { e.Reason = "ApplyPolicySucceed" })}, unknown},
		"of another namespace": {
			[]client.Object{refusedAt("a", time.Minute, func(e *corev1.Event) { e.Namespace = "bank" })}, unknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := Reader{Client: withEvents(t).WithObjects(append(test.events, claimable()...)...).Build(), Now: func() time.Time { return noon }}
			f, err := r.ReadObject(t.Context(), appsv1.SchemeGroupVersion.WithKind("Deployment"), "shop", "web")
			if err != nil {
				t.Fatal(err)
			}
			got := BuildTrace(f, noon).Notes
			if len(got) != 1 || !strings.HasPrefix(got[0], test.want) {
				t.Errorf("the notes are %q, want %q", got, test.want)
			}
		})
	}
}

// claimable are Deployment shop/web and policy shop/own, which selects it.
func claimable() []client.Object {
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{deployment("web")}
	return []client.Object{&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}, policy}
}

func TestEventsThatMayNotBeRead(t *testing.T) {
	hub := withEvents(t).WithObjects(claimable()...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*corev1.EventList); is {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("not you"))
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	f, err := Reader{Client: hub, Now: time.Now}.ReadObject(t.Context(), appsv1.SchemeGroupVersion.WithKind("Deployment"), "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Events of namespace shop (whether the hub lets the policy claim the object is not shown here)"}
	if diff := cmp.Diff(want, f.Unread); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
