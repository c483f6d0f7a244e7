// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/staging"
	"github.com/capstan-io/capstan/internal/hub/propagation/turns"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
)

// TestHeavyObjectsHaveTheirTurn has others of the namespace send something heavy.
func TestHeavyObjectsHaveTheirTurn(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cache := fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&policyv1alpha1.OverridePolicy{}, indexReaches, overrideIndexKeys).WithIndex(&policyv1alpha1.ClusterOverridePolicy{}, indexReaches, overrideIndexKeys).Build()
	line := turns.NewTurns(2, func(types.NamespacedName) {})
	if err := line.Take(types.NamespacedName{Namespace: "shop", Name: "other"}); err != nil {
		t.Fatal(err)
	}
	clusters := fleet.NewFleet(clock.RealClock{})
	c := &BindingController{BindingControllerDeps: BindingControllerDeps{Client: cache, Fleet: clusters, Stages: staging.NewStages(staging.StageDeps{Client: cache, Live: cache, Fleet: clusters, Clock: clock.RealClock{}, Turns: line})}}
	for values, want := range map[int]error{10: nil, 100_000: turns.ErrWait} {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Gadget", "spec": make([]any, values)}}
		object.SetNamespace("shop")
		object.SetName("web")
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-gadget"}}
		for _, err := range c.renderWorkBatches(t.Context(), b, object, allowance.WorkOwner{Namespace: "shop"}, nil) {
			if !errors.Is(err, want) {
				t.Errorf("an object with %d values is made now: %v, want %v", values, err, want)
			}
		}
	}
}

// TestClustersOfReferrersAreThoseOfNow has a binding whose spec.requiredBy lags behind
// the bindings that need its object.
func TestClustersOfReferrersAreThoseOfNow(t *testing.T) {
	on := func(clusters ...string) (all []workv1alpha2.TargetCluster) {
		for _, name := range clusters {
			all = append(all, workv1alpha2.TargetCluster{Name: name})
		}
		return all
	}
	referrer := func(name string, sends bool, clusters ...string) *workv1alpha2.ResourceBinding {
		return &workv1alpha2.ResourceBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       workv1alpha2.ResourceBindingSpec{PropagateDeps: sends, Clusters: on(clusters...)},
		}
	}
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	theirs := referrer("theirs", true, "secret")
	theirs.Namespace = "bank"
	read := 0
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		referrer("grown", true, "a", "b"), referrer("alone", false, "c"), referrer("unasked", true, "d"), theirs,
	).WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		read++
		return c.Get(ctx, key, o, options...)
	}}).Build()
	of := func(names ...string) (all []workv1alpha2.BindingSnapshot) {
		for _, name := range names {
			all = append(all, workv1alpha2.BindingSnapshot{Namespace: "shop", Name: name, Clusters: on("a", "z")})
		}
		return all
	}
	for _, test := range []struct {
		name       string
		requiredBy []workv1alpha2.BindingSnapshot
		want       []string
	}{
		{"nobody needs it", nil, []string{}},
		{"who needs it has another cluster by now", of("grown"), []string{"a", "b"}},
		{"who needs it does not send it along any more", of("alone"), []string{}},
		{"who needed it is gone", of("gone"), []string{}},
		{"who is of another namespace needs nothing here", []workv1alpha2.BindingSnapshot{{Namespace: "bank", Name: "theirs"}}, []string{}},
		{"of several, each more than once", slices.Repeat(of("grown", "gone"), 1000), []string{"a", "b"}},
		{"of several", of("alone", "gone", "grown", "unasked"), []string{"a", "b", "d"}},
	} {
		b := &workv1alpha2.ResourceBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "needed"}, Spec: workv1alpha2.ResourceBindingSpec{RequiredBy: test.requiredBy},
		}
		read = 0
		got, err := clustersOfReferrers(t.Context(), hub, b)
		if read > 4 {
			t.Errorf("%s: %d bindings are read", test.name, read)
		}
		if err != nil || !slices.Equal(sets.List(got), test.want) {
			t.Errorf("%s: %v, %v, want %v", test.name, sets.List(got), err, test.want)
		}
	}
}
