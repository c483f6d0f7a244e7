// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/instance"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const definition = "klusterlets.operator.open-cluster-management.io"

// heard is a log that calls what listens to it.
type heard struct {
	strings.Builder
	listen func(line string)
}

func (h *heard) Write(line []byte) (int, error) {
	if h.listen != nil {
		h.listen(string(line))
	}
	return h.Builder.Write(line)
}

func start(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) (instance.Instances, *heard) {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, errors.Join(operatorv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)))
	log := &heard{}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(funcs).WithObjects(objects...).Build()
	return instance.Instances{Client: c, Log: log}, log
}

func klusterlet(name string, finalizers ...string) *operatorv1.Klusterlet {
	return &operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}
}

func crd() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definition}}
}

func removal(name string, operator bool) instance.RemovalRequest {
	return instance.RemovalRequest{Kind: operatorv1.GroupVersion.WithKind("Klusterlet"), Name: name, Operator: operator}
}

func there(t *testing.T, c client.Client, object client.Object) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

func TestRemoveWaitsForTheOperator(t *testing.T) {
	mine := klusterlet("klusterlet", "operator/cleanup")
	i, log := start(t, interceptor.Funcs{}, mine, crd())
	cleaned := false
	log.listen = func(line string) {
		if !strings.Contains(line, "is being removed") || cleaned {
			return
		}
		if !there(t, i.Client, crd()) {
			t.Error("the definition was deleted before the operator had cleaned up")
		}
		cleaned = true
		if err := i.Client.Patch(t.Context(), mine, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			t.Error(err)
		}
	}
	expect.NoError(t, i.RemoveInstance(t.Context(), removal("klusterlet", true)))
	if !cleaned || there(t, i.Client, klusterlet("klusterlet")) || there(t, i.Client, crd()) {
		t.Errorf("waited: %t; want the object and its definition gone; log:\n%s", cleaned, log)
	}
}

func TestRemoveWaitsForOthersThatAreGoing(t *testing.T) {
	other := klusterlet("b", "operator/cleanup")
	i, log := start(t, interceptor.Funcs{}, klusterlet("a"), other, crd())
	expect.NoError(t, i.Client.Delete(t.Context(), other))
	waited := false
	log.listen = func(line string) {
		if waited || !strings.Contains(line, "Klusterlet b is being removed, too") {
			return
		}
		waited = true
		if err := i.Client.Patch(t.Context(), other, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	}
	if err := i.RemoveInstance(t.Context(), removal("a", true)); err != nil || !waited || there(t, i.Client, crd()) {
		t.Errorf("waited: %t, error: %v; want all gone; log:\n%s", waited, err, log)
	}
}

func TestRemove(t *testing.T) {
	cases := map[string]struct {
		there      []client.Object
		removal    instance.RemovalRequest
		want       string // part of the error
		definition bool
	}{
		"another object keeps operator and definition":            {[]client.Object{klusterlet("a"), klusterlet("b"), crd()}, removal("a", true), "there is still Klusterlet b", true},
		"an object that nobody named keeps them":                  {[]client.Object{klusterlet("a"), crd()}, removal("", true), "kubectl delete klusterlet a", true},
		"an object goes alone if the operator stays":              {[]client.Object{klusterlet("a"), klusterlet("b"), crd()}, removal("a", false), "", true},
		"what is gone already is no error":                        {[]client.Object{crd()}, removal("a", true), "", false},
		"nothing is left to remove where there is nothing at all": {nil, removal("a", true), "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			i, _ := start(t, interceptor.Funcs{}, tc.there...)
			err := i.RemoveInstance(t.Context(), tc.removal)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got the error %v, want %q", err, tc.want)
			}
			if kept := there(t, i.Client, klusterlet("a")); strings.Contains(tc.want, "there is still") && !kept {
				t.Error("what the release has made was removed before it was refused")
			}
			if got := there(t, i.Client, crd()); got != tc.definition {
				t.Errorf("the definition is there: %t, want %t", got, tc.definition)
			}
		})
	}
}

func TestRemoveTellsWhatItWaitedFor(t *testing.T) {
	stuck := klusterlet("a", "operator/cleanup")
	stuck.Status.Conditions = []metav1.Condition{{Type: "Deleting", Status: metav1.ConditionTrue, Message: "2 works are left"}}
	i, log := start(t, interceptor.Funcs{}, stuck)
	ctx, stop := context.WithCancel(t.Context())
	log.listen = func(string) { stop() }
	err := i.RemoveInstance(ctx, removal("a", false))
	if err == nil || !strings.Contains(err.Error(), "2 works are left") {
		t.Errorf("got %v, want an error that says what the removal waited for", err)
	}
}

func TestApplyWaitsForARemoval(t *testing.T) {
	going := klusterlet("klusterlet", "operator/cleanup")
	i, log := start(t, interceptor.Funcs{}, going)
	expect.NoError(t, i.Client.Delete(t.Context(), going))
	waited := false
	log.listen = func(line string) {
		if waited || !strings.Contains(line, "is being removed") {
			return
		}
		waited = true
		if err := i.Client.Patch(t.Context(), going, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil { // the fake looks for what it has just removed
			t.Error(err)
		}
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": "c1"}}}
	wanted.SetGroupVersionKind(operatorv1.GroupVersion.WithKind("Klusterlet"))
	wanted.SetName("klusterlet")
	expect.NoError(t, i.ApplyInstance(t.Context(), wanted))
	if got := klusterlet("klusterlet"); !waited || !there(t, i.Client, got) || got.DeletionTimestamp != nil {
		t.Errorf("waited: %t; want the object created again; log:\n%s", waited, log)
	}
}

func TestApply(t *testing.T) {
	object := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": "c1"}}}
		u.SetGroupVersionKind(operatorv1.GroupVersion.WithKind("Klusterlet"))
		u.SetName("klusterlet")
		return u
	}
	refusals := 1
	i, log := start(t, interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
		if refusals > 0 {
			refusals--
			return apierrors.NewNotFound(operatorv1.GroupVersion.WithResource("klusterlets").GroupResource(), "klusterlet")
		}
		return c.Apply(ctx, o, opts...)
	}})
	if err := i.ApplyInstance(t.Context(), object()); err != nil {
		t.Fatalf("want it applied once its definition is in force: %v; log:\n%s", err, log)
	}
	got := klusterlet("klusterlet")
	if !there(t, i.Client, got) || got.Spec.ClusterName != "c1" {
		t.Errorf("got %+v, want the object applied", got)
	}
	i, _ = start(t, interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return apierrors.NewInvalid(operatorv1.GroupVersion.WithKind("Klusterlet").GroupKind(), "klusterlet", nil)
	}})
	if err := i.ApplyInstance(t.Context(), object()); !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want what the API server said at once", err)
	}
}
