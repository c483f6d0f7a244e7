// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

// neededFor returns a binding with labels that say that the named ones need its object.
func neededFor(name string, by ...string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}}}
	for _, one := range by {
		b.Labels[references.DependedByLabel("shop", one)] = ""
	}
	return b
}

// named returns so many names of bindings.
func named(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i)
	}
	return all
}

// TestABindingIsFoundByFewLabels has a binding with so many labels as it has room for.
func TestABindingIsFoundByFewLabels(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, neededMax: neededMax, neededMax + 1: 1, 10_000: 1} {
		if found := len(neededByLabels(neededFor("config", named("web", n)...))); found != want {
			t.Errorf("a binding with %d labels is found by %d values, want %d", n, found, want)
		}
	}
}

// TestWhoIsNeededByManyHoldsThemAll looks whether a binding may go, as nothing says any more
// that its object needs something.
func TestWhoIsNeededByManyHoldsThemAll(t *testing.T) {
	scheme := apiruntime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&workv1alpha2.ResourceBinding{}, indexNeeded, neededByLabels).
		WithObjects(neededFor("few", "first"), neededFor("many", named("web", neededMax+1)...)).Build()
	r := &ReferrerController{DependencyDeps: DependencyDeps{Client: hub}}
	for name, want := range map[string]bool{"first": true, "web0": true, fmt.Sprint("web", neededMax): true, "other": false} {
		holds, err := r.isStillReferred(t.Context(), neededFor(name))
		if err != nil {
			t.Fatal(err)
		}
		if holds != want {
			t.Errorf("%s is held: %t, want %t", name, holds, want)
		}
	}
}
