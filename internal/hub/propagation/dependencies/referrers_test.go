// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

// TestWhatNeverLetsGoIsLookedAtLessAndLess has a binding that needs nothing any more, and another
// one, of an object that does not exist, which says that it is needed for that.
func TestWhatNeverLetsGoIsLookedAtLessAndLess(t *testing.T) {
	const looks = 12
	scheme := apiruntime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Finalizers: []string{workv1alpha2.FinalizerDependencies}}}
	label := references.DependedByLabel(b.Namespace, b.Name)
	forged := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "forged", Labels: map[string]string{label: "x"}}}
	needed := func(object client.Object) (keys []string) {
		for key := range object.GetLabels() {
			keys = append(keys, key)
		}
		return keys
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b, forged).WithIndex(&workv1alpha2.ResourceBinding{}, indexNeeded, needed).Build()
	r := &ReferrerController{DependencyDeps: DependencyDeps{Client: hub, Live: hub, Templates: templates.NewTemplates(templates.TemplateOptions{}), Chain: interpret.Chain{}}}
	var waited []time.Duration
	look := func() time.Duration {
		t.Helper()
		present := &workv1alpha2.ResourceBinding{}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(b), present); err != nil {
			t.Fatal(err)
		}
		result, err := r.updateReferences(t.Context(), present)
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	for range looks {
		waited = append(waited, look())
	}
	if waited[0] != again || waited[looks-1] != againMax {
		t.Errorf("it waits for %v, want from %s to %s", waited, again, againMax)
	}
	freed := b.DeepCopy()
	freed.Finalizers = nil
	if _, err := r.updateReferences(t.Context(), freed); err != nil || len(r.looks) > 0 {
		t.Errorf("%v is remembered of one that waits for nothing any more (%v)", r.looks, err)
	}
	if wait := look(); wait != again {
		t.Errorf("it waits for %s when it has to again, want %s", wait, again)
	}
	if err := hub.Delete(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	if wait := look(); wait != 0 || len(r.looks) > 0 {
		t.Errorf("it waits for %s, and %v is remembered, when nothing says any more that it is needed", wait, r.looks)
	}
}
