// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// TestWhatIsNeededIsReadWhenThereIsRoom has the binding looked at of an object that takes some ten
// megabytes once it is decoded, while others have decoded as much as there is room for.
func TestWhatIsNeededIsReadWhenThereIsRoom(t *testing.T) {
	dense := `{"apiVersion":"example.com/v1","kind":"Table","metadata":{"namespace":"tenant","name":"t","uid":"1"},"rows":[` + strings.Repeat("{},", 100_000) + `{}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, dense)
	}))
	defer server.Close()
	objects, err := dynamic.NewForConfigAndClient(&rest.Config{Host: server.URL}, &http.Client{Transport: decoding.NewTransport(nil)})
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Table"}, meta.RESTScopeNamespace)
	scheme := apiruntime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "t-table"}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "example.com/v1", Kind: "Table", Namespace: "tenant", Name: "t", UID: "1"}
	b.Spec.PropagateDeps, b.Spec.Clusters = true, []workv1alpha2.TargetCluster{{Name: "member1"}}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).
		WithIndex(&workv1alpha2.ResourceBinding{}, indexNeeded, func(client.Object) []string { return nil }).Build()
	memory := decoding.NewMemory(clock.RealClock{})
	r := &ReferrerController{DependencyDeps: DependencyDeps{
		Client: hub, Live: hub, Templates: templates.NewTemplates(templates.TemplateOptions{}),
		Objects: templates.HubObjects{Client: objects, Mapper: mapper, Contents: templates.NewContentCache(clock.RealClock{}), Memory: memory},
	}}
	look := func(ctx context.Context) error {
		_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		return err
	}

	var ends []func()
	for _, namespace := range []string{"one", "two"} {
		ctx, end := memory.BeginReservation(t.Context(), namespace)
		if err := decoding.TakeMemory(ctx, 192<<20); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := look(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it waits for room", err)
	}
	for _, end := range ends {
		end()
	}
	for range 20 { // what was decoded counts no more
		if err := look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
