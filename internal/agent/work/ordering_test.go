// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// statusWrites counts the reports on works.
type statusWrites struct {
	http.RoundTripper
	count *atomic.Int64
}

func (w *statusWrites) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/manifestworks/") && strings.HasSuffix(request.URL.Path, "/status") {
		w.count.Add(1)
	}
	return w.RoundTripper.RoundTrip(request)
}

func TestWhatTheWorkItselfBringsIsWaitedForWithoutAWord(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	var reports atomic.Int64
	s.start(agentOptions{wrap: func(rt http.RoundTripper) http.RoundTripper { return &statusWrites{RoundTripper: rt, count: &reports} }})
	in := func(namespace string, raw string) string {
		return strings.ReplaceAll(raw, fmt.Sprintf("%q", s.ns()), fmt.Sprintf("%q", namespace))
	}
	s.create(s.work("w",
		fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Cog","metadata":{"name":"w","namespace":"%s-new"},"spec":{"size":3}}`, s.cluster),
		in(s.cluster+"-new", s.configMap("a", "1")),
		fmt.Sprintf(widgets, "cog", "Cog"),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s-new"}}`, s.cluster),
	))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.condition("w", "Available", metav1.ConditionTrue)
	if n := reports.Load(); n != 1 {
		t.Errorf("there were %d reports, want only that all is applied", n)
	}
}

func TestAnObjectWaitsForItsNamespace(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	namespace := s.cluster + "-late"
	s.create(s.work("w", strings.ReplaceAll(s.configMap("a", "1"), s.ns(), namespace), s.configMap("b", "1")))
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), fmt.Sprintf("Namespace %q does not exist: add it to the work, or create it", namespace))
	s.contains(message(work, 0, "Available"), "False ResourceNotAvailable")
	s.contains(message(work, 1, "Applied"), "True")
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	s.condition("w", "Applied", metav1.ConditionTrue)
}

func TestAnObjectComesAgainAfterItsNamespaceWasDeleted(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.cluster + "-goes"}}
	s.create(namespace)
	s.create(s.work("w", strings.ReplaceAll(s.configMap("a", "1"), s.ns(), namespace.Name)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	if err := s.client.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	if err := s.client.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(namespace.Name)); err != nil {
		t.Fatal(err)
	}
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), fmt.Sprintf("Namespace %q is being deleted", namespace.Name))
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Spec.Finalizers = nil // what the controller of namespaces does when all is gone
	if err := s.client.SubResource("finalize").Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	s.eventually("the namespace is made again", func() error {
		return s.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name}})
	})
	s.condition("w", "Applied", metav1.ConditionTrue)
}

func TestObjectsComeAgainWhenADefinitionIsReplaced(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	definition := &unstructured.Unstructured{}
	if err := json.Unmarshal(fmt.Appendf(nil, widgets, "sprocket", "Sprocket"), &definition.Object); err != nil {
		t.Fatal(err)
	}
	s.create(definition.DeepCopy())
	s.create(s.work("w", fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Sprocket","metadata":{"name":"w","namespace":%q},"spec":{"size":3}}`, s.ns())))
	s.condition("w", "Applied", metav1.ConditionTrue)
	sprocket := unstructuredOf(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Sprocket"}, s.ns(), "w")
	for i := range 2 {
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(sprocket), sprocket); err != nil {
			t.Fatal(i, err)
		}
		before := sprocket.GetUID()
		if err := s.client.Delete(t.Context(), definition.DeepCopy()); err != nil {
			t.Fatal(i, err)
		}
		s.eventually("the definition is made again", func() error { return s.client.Create(t.Context(), definition.DeepCopy()) })
		s.eventually("the object is another one", func() error {
			err := s.client.Get(t.Context(), client.ObjectKeyFromObject(sprocket), sprocket)
			if err == nil && sprocket.GetUID() == before {
				err = errors.New("it is the same")
			}
			return err
		})
		s.condition("w", "Applied", metav1.ConditionTrue)
	}
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("a", "1")) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}
