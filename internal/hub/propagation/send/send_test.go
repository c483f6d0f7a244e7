// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// TestAWorkIsCreatedOnce creates a work that the cache shows by now, and one whose
// name another one has.
func TestAWorkIsCreatedOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := workv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	work := func(id, binding string) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: "member1", Name: "web", Labels: map[string]string{karmadaworkv1alpha1.LabelPermanentID: id},
			Annotations: map[string]string{workv1alpha2.AnnotationResourceBindingNamespace: "shop", workv1alpha2.AnnotationResourceBindingName: binding},
		}}
	}
	going := work("a", "web")
	going.Finalizers, going.DeletionTimestamp = []string{"example.com/kept"}, &metav1.Time{Time: time.Unix(0, 0)}
	unmarked := work("a", "web")
	unmarked.Annotations = nil
	for name, test := range map[string]struct {
		present         *workv1.ManifestWork
		asked           int
		conflict, waits bool
		says            string
	}{
		"it is new":                    {asked: 1},
		"it has come":                  {present: work("a", "web")},
		"one of its binding is there":  {present: work("b", "web"), asked: 1, conflict: true},
		"another has its name":         {present: work("b", "other"), asked: 1, says: "another ManifestWork"},
		"its member took the names":    {present: unmarked, asked: 1, says: "another ManifestWork"},
		"its member keeps the earlier": {present: going, waits: true, says: "has not released the ManifestWork"},
		"a user's has its name": {
			present: &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: "web"}}, asked: 1, says: "another ManifestWork",
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
					asked++
					return c.Create(ctx, object, options...)
				},
			})
			if test.present != nil {
				builder.WithObjects(test.present)
			}
			hub := builder.Build()
			clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			w := WorkWriter{Client: hub, Live: hub, Created: ownwrites.NewCreatedWorks(clk), Restless: NewRestlessWorks(clk)}
			failed := w.WriteChanges(t.Context(), deliver.WorkChanges{New: []*workv1.ManifestWork{work("a", "web")}})
			err := JoinErrors(failed)
			if apierrors.IsConflict(failed["member1"]) != test.conflict || WaitsForEarlier(err) != test.waits || asked != test.asked ||
				test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("the hub was asked %d times to create it: %v", asked, err)
			}
			if now, later := LastingErrors(failed, clk.Now()), LastingErrors(failed, clk.Now().Add(time.Hour)); test.waits && (len(now) > 0 || len(later) != 1) {
				t.Errorf("the errors that last are %v, and an hour later %v", now, later)
			}
		})
	}
}

// TestWhatIsPreservedIsNotRemovedWithItsWork deletes works that say already that
// what they delivered stays, and that do not.
func TestWhatIsPreservedIsNotRemovedWithItsWork(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := workv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	orphan := &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	for name, test := range map[string]struct {
		option   *workv1.DeleteOption
		preserve bool
		want     *workv1.DeleteOption
	}{
		"asked for a moment ago": {preserve: true, want: orphan},
		"of another policy":      {option: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyForeground}, preserve: true, want: orphan},
		"asked for before":       {option: orphan, preserve: true, want: orphan},
		"not asked for":          {},
	} {
		t.Run(name, func(t *testing.T) {
			work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: "web", UID: "1", Finalizers: []string{workv1.FinalizerManifestWorkCleanup}}}
			work.Spec.DeleteOption = test.option
			hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(work).Build()
			clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			w := WorkWriter{Client: hub, Live: hub, Created: ownwrites.NewCreatedWorks(clk), Restless: NewRestlessWorks(clk)}
			if err := JoinErrors(w.WriteChanges(t.Context(), deliver.WorkChanges{Gone: []workv1.ManifestWork{*work}, Preserve: test.preserve})); err != nil {
				t.Fatal(err)
			}
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(work), work); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, work.Spec.DeleteOption); diff != "" || work.DeletionTimestamp == nil {
				t.Errorf("deleted at %v, with (-want +got):\n%s", work.DeletionTimestamp, diff)
			}
		})
	}
}
