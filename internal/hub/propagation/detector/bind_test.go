// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/decide"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/kube/events"
)

// bindScene is a hub with a policy for a Deployment, whose clusters another scheduler
// chooses.
type bindScene struct {
	*testing.T
	binder  bindingWriter
	object  *unstructured.Unstructured
	touched int // how often the controller of bindings was notified
}

func newBindScene(t *testing.T) *bindScene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &bindScene{T: t, object: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7"},
	}}}
	clk := clock.RealClock{}
	hub, clusters := fake.NewClientBuilder().WithScheme(scheme).Build(), fleet.NewFleet(clk)
	s.binder = bindingWriter{DetectionDeps{
		Client: hub, Store: store.NewBindingStore(hub, decide.NewDecider(decide.DeciderOptions{Fleet: clusters, Clock: clk}), clusters, store.NewWriteMeter(clk)), Chain: interpret.Chain{native.NewKubernetesKinds()}, Events: events.NewRecorder(nil),
		Touched: func(types.NamespacedName) { s.touched++ },
	}}
	return s
}

// bind reconciles the binding of the Deployment, and returns it.
func (s *bindScene) bind() *workv1alpha2.ResourceBinding {
	s.Helper()
	key := templates.KeyOf(workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"})
	have, err := lookup.FindBindings(s.Context(), s.binder.Client, key)
	if err != nil {
		s.Fatal(err)
	}
	policy := &policyv1alpha1.PropagationPolicy{Spec: policyv1alpha1.PropagationSpec{SchedulerName: "mine"}}
	if _, err := s.binder.bindObject(s.Context(), key, s.object, policy, have); err != nil {
		s.Fatal(err)
	}
	b := &workv1alpha2.ResourceBinding{}
	if err := s.binder.Client.Get(s.Context(), client.ObjectKey{Namespace: "shop", Name: "web-deployment"}, b); err != nil {
		s.Fatal(err)
	}
	return b
}

// TestABindingIsNotWrittenForANewVersionAlone changes a Deployment that has a binding.
// Each change gives the Deployment a new resourceVersion.
func TestABindingIsNotWrittenForANewVersionAlone(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*unstructured.Unstructured)
		wrote   bool
		version string // that the binding has then
	}{
		"another label": {func(object *unstructured.Unstructured) { object.SetLabels(map[string]string{"a": "b"}) }, false, "7"},
		"more replicas": {func(object *unstructured.Unstructured) { object.Object["spec"] = map[string]any{"replicas": int64(3)} }, true, "8"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBindScene(t)
			before := s.bind()
			s.touched = 0
			test.change(s.object)
			s.object.SetResourceVersion("8")
			after := s.bind()
			if wrote := after.ResourceVersion != before.ResourceVersion; wrote != test.wrote || after.Spec.Resource.ResourceVersion != test.version {
				t.Errorf("the binding was written: %t, and has version %s of the object; want %t and %s",
					wrote, after.Spec.Resource.ResourceVersion, test.wrote, test.version)
			}
			if notified := s.touched > 0; notified == test.wrote {
				t.Errorf("the controller of bindings was notified: %t, want %t, as it does not see the change itself", notified, !test.wrote)
			}
		})
	}
}

// TestBindingsWaitForTheWritesOfTheirNamespace has large bindings written in a namespace until it is not their turn.
func TestBindingsWaitForTheWritesOfTheirNamespace(t *testing.T) {
	s := newBindScene(t)
	large := &workv1alpha2.ResourceBinding{}
	large.Namespace = "shop"
	large.Name = "large"
	large.Spec.SchedulerName = strings.Repeat("x", 1<<20)
	for range 100 {
		s.binder.Store.Meter.CountWrite(t.Context(), large)
	}
	template := &metav1.PartialObjectMetadata{}
	template.SetNamespace("shop")
	template.SetName("web")
	key := templates.KeyOf(workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"})
	policy := &policyv1alpha1.PropagationPolicy{Spec: policyv1alpha1.PropagationSpec{SchedulerName: "mine"}}
	policy.Namespace = "shop"
	c := &DetectionController{DetectionDeps: s.binder.DetectionDeps, binder: s.binder} // which can read no object
	result, err := c.propagateObject(t.Context(), key, template, policy, lookup.ObjectBindings{})
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("%v: the binding is looked at again after %v, want later", err, result.RequeueAfter)
	}
	list := &workv1alpha2.ResourceBindingList{}
	if err := s.binder.Client.List(t.Context(), list); err != nil || len(list.Items) > 0 {
		t.Errorf("%v: %d bindings were written", err, len(list.Items))
	}
	if _, wait := s.binder.beginWrites(t.Context(), template, &policyv1alpha1.ClusterPropagationPolicy{}); wait > 0 {
		t.Errorf("what a ClusterPropagationPolicy sends waits %v for what users of the namespace have written", wait)
	}
}
