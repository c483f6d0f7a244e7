// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestSetStampsTheGenerationAndCutsLongMessages(t *testing.T) {
	var list []metav1.Condition
	SetCondition(&list, 7, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Good", Message: strings.Repeat("x", MessageBytesMax+1),
	})
	if len(list) != 1 || list[0].ObservedGeneration != 7 || len(list[0].Message) != MessageBytesMax {
		t.Errorf("got %d conditions, generation %d, a message of %d bytes", len(list), list[0].ObservedGeneration, len(list[0].Message))
	}
	for shift := range 2 { // or what is stored is never what is wanted
		SetCondition(&list, 7, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Good", Message: strings.Repeat("x", shift) + strings.Repeat("ä", MessageBytesMax)})
		if message := list[0].Message; !utf8.ValidString(message) || len(message) > MessageBytesMax {
			t.Errorf("a message is cut to %d bytes, within a character: %t", len(message), !utf8.ValidString(message))
		}
	}
}

func TestTheTransitionTimeChangesWithTheStatusOnly(t *testing.T) {
	long := metav1.Unix(1, 0)
	list := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Good", LastTransitionTime: long}}
	SetCondition(&list, 2, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Better"})
	if !list[0].LastTransitionTime.Equal(&long) {
		t.Error("another reason changed the transition time")
	}
	SetCondition(&list, 2, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Bad"})
	if list[0].LastTransitionTime.Equal(&long) {
		t.Error("another status did not change the transition time")
	}
}

func TestOfKeepsTheOrderThatIsAskedFor(t *testing.T) {
	list := []metav1.Condition{{Type: "A"}, {Type: "B"}, {Type: "C"}}
	if diff := cmp.Diff([]metav1.Condition{{Type: "C"}, {Type: "A"}}, SelectByType(list, "C", "X", "A")); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestPatchStatus(t *testing.T) {
	cases := map[string]struct {
		reason       string
		change       func(*appsv1.Deployment)
		elsewhere    bool
		wantPatches  int
		wantConflict bool
	}{
		"an unchanged status is not written": {
			reason: "a write wakes every watcher", change: func(*appsv1.Deployment) {},
		},
		"a change of the metadata alone is not written": {
			reason: "the status is the only thing that is patched", change: func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} },
		},
		"a changed status is written once": {
			reason: "one patch has all of it", change: func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, wantPatches: 1,
		},
		"a write in between is a conflict": {
			reason: "the decision was made on what was read", change: func(d *appsv1.Deployment) { d.Status.Replicas = 3 },
			elsewhere: true, wantPatches: 1, wantConflict: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			patches := 0
			stored := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "n"}}
			cl := newClient(t, stored, &patches)
			before := &appsv1.Deployment{}
			expect.NoError(t, cl.Get(t.Context(), client.ObjectKeyFromObject(stored), before))
			if c.elsewhere {
				other := before.DeepCopy()
				other.Annotations = map[string]string{"by": "other"}
				expect.NoError(t, cl.Update(t.Context(), other))
			}
			after := before.DeepCopy()
			c.change(after)
			err := PatchStatus(t.Context(), cl, before, after)
			if apierrors.IsConflict(err) != c.wantConflict || (err != nil && !c.wantConflict) {
				t.Errorf("%s: error %v, want a conflict: %t", c.reason, err, c.wantConflict)
			}
			if patches != c.wantPatches {
				t.Errorf("%s: %d patches, want %d", c.reason, patches, c.wantPatches)
			}
		})
	}
}

func newClient(t *testing.T, stored client.Object, patches *int) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, appsv1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				*patches++
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
		}).Build()
}
