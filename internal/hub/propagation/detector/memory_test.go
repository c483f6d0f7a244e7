// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

var tables = templates.Key{
	Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Table"}, Name: types.NamespacedName{Namespace: "tenant", Name: "t"},
}

// tableOf returns the metadata of a Table by which it is watched.
func tableOf(t *testing.T, mapper meta.RESTMapper, uid types.UID) *templates.Templates {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: tables.Name.Namespace, Name: tables.Name.Name, UID: uid, ResourceVersion: "1"}}
	object.SetGroupVersionKind(tables.Kind)
	changed := &inbox.Inbox[templates.Key]{}
	known := templates.NewTemplates(templates.TemplateOptions{
		Client: metadatafake.NewSimpleMetadataClient(scheme, object), Mapper: mapper, Clock: clock.RealClock{}, Changed: changed.Add,
	})
	known.UseKinds("somebody", tables.Kind)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- known.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for end := time.Now().Add(3 * time.Minute); len(known.ObjectsInNamespace("")) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the object is not known: %v", known.KindProblem(tables.Kind))
		}
	}
	return known
}

// TestAnObjectIsReadWhenThereIsRoom has an object looked at that is another one than its binding
// is of, and takes some ten megabytes once it is decoded, while others have decoded as much as
// there is room for.
func TestAnObjectIsReadWhenThereIsRoom(t *testing.T) {
	dense := `{"apiVersion":"example.com/v1","kind":"Table","metadata":{"namespace":"tenant","name":"t","uid":"3"},"rows":[` + strings.Repeat("{},", 100_000) + `{}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, dense)
	}))
	defer server.Close()
	objects, err := dynamic.NewForConfigAndClient(&rest.Config{Host: server.URL}, &http.Client{Transport: decoding.NewTransport(nil)})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(workv1alpha2.AddToScheme(scheme), clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "t-table"}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "example.com/v1", Kind: "Table", Namespace: "tenant", Name: "t", UID: "1"}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).Build()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(tables.Kind, meta.RESTScopeNamespace)
	memory := decoding.NewMemory(clock.RealClock{})
	c := NewDetectionController(DetectionDeps{
		Client: hub, Live: hub, Templates: tableOf(t, mapper, "2"), Fleet: fleet.NewFleet(clock.RealClock{}),
		Objects: templates.HubObjects{Client: objects, Mapper: mapper, Contents: templates.NewContentCache(clock.RealClock{}), Memory: memory},
	})

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
	if _, err := c.Reconcile(soon, tables); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it waits for room", err)
	}
	for _, end := range ends {
		end()
	}
	for range 20 { // what was decoded counts no more
		if _, err := c.Reconcile(t.Context(), tables); err != nil {
			t.Fatal(err)
		}
	}
}
