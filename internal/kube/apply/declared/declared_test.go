// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package declared

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi/openapitest"
	"k8s.io/client-go/rest"
	realclock "k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// server answers with documents by their path, and counts how often it is asked.
type server struct {
	documents map[string]string
	asked     atomic.Int64
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	document, has := s.documents[r.URL.Path]
	if !has {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(document))
}

// fields returns those of the server, with what is taken of an answer as hubs take it.
func (s *server) fields(t *testing.T, clock *clocktesting.FakePassiveClock) *SchemaFields {
	t.Helper()
	return s.fieldsWith(t, clock, nil)
}

// fieldsWith returns those that are decoded when there is memory for them.
func (s *server) fieldsWith(t *testing.T, clock *clocktesting.FakePassiveClock, memory *decoding.Memory) *SchemaFields {
	t.Helper()
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	config := &rest.Config{Host: listening.URL}
	dial.LimitAnswers(config)
	return NewSchemaFields(discovery.NewDiscoveryClientForConfigOrDie(config).RESTClient(), clock, memory, "c1")
}

func now() *clocktesting.FakePassiveClock { return clocktesting.NewFakePassiveClock(time.Now()) }

// ofKubernetes has what API servers declare of their own kinds.
func ofKubernetes(t *testing.T) *server {
	t.Helper()
	paths, err := openapitest.NewEmbeddedFileClient().Paths()
	expect.NoError(t, err)
	s := &server{documents: map[string]string{}}
	for _, path := range []string{"api/v1", "apis/apps/v1"} {
		document, err := paths[path].Schema("application/json")
		expect.NoError(t, err)
		s.documents["/openapi/v3/"+path] = string(document)
	}
	return s
}

const (
	whole   = `{"schemas":{"net.example.v1.Whole":{"type":"object","x-kubernetes-group-version-kind":[{"group":"example.net","kind":"Whole","version":"v1"}],"properties":{`
	members = `"limits":{"type":"object","additionalProperties":{"type":"string"}},
"pick":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},
"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
"words":{"type":"array","items":{"type":"string"}},
"rules":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","properties":{
"name":{"type":"string"},"inner":{"allOf":[{"$ref":"#/components/schemas/net.example.v1.Inner"}],"default":{}},
"outer":{"allOf":[{"$ref":"#/components/schemas/net.example.v1.Inner"}],"x-kubernetes-map-type":"atomic"}}}}}},
"net.example.v1.Inner":{"type":"object","properties":{"a":{"type":"string"}}}}}`
)

func path(parts ...any) fieldpath.Path { return fieldpath.MakePathOrDie(parts...) }

func TestIsOne(t *testing.T) {
	t.Parallel()
	s := ofKubernetes(t)
	s.documents["/openapi/v3/apis/example.net/v1"] = `{"components":` + whole + members + `}`
	fields := s.fields(t, now())
	named := fieldpath.KeyByFields("name", "x")
	core, apps := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}
	custom := schema.GroupVersionKind{Group: "example.net", Version: "v1", Kind: "Whole"}
	for _, test := range []struct {
		kind       schema.GroupVersionKind
		path       fieldpath.Path
		list       bool
		one, known bool
	}{
		{kind: core.WithKind("ConfigMap"), path: path("data"), known: true},
		{kind: core.WithKind("ConfigMap"), path: path("metadata", "labels"), known: true},
		{kind: core.WithKind("ConfigMap"), path: path("metadata", "finalizers"), list: true, known: true},
		{kind: core.WithKind("ConfigMap"), path: path("data", "key")}, // a text
		{kind: core.WithKind("ConfigMap"), path: path("data"), list: true},
		{kind: core.WithKind("ConfigMap"), path: path("nothing")},
		{kind: core.WithKind("Nothing"), path: path("data")},
		{kind: core.WithKind("Service"), path: path("spec", "selector"), one: true, known: true},
		{kind: core.WithKind("Pod"), path: path("spec", "nodeSelector"), one: true, known: true},
		{kind: core.WithKind("Pod"), path: path("spec", "containers"), list: true, known: true},
		{kind: core.WithKind("Pod"), path: path("spec", "containers", 0, "args"), list: true, one: true, known: true},
		{kind: core.WithKind("Pod"), path: path("spec", "containers", named, "resources", "limits"), known: true},
		{kind: apps.WithKind("Deployment"), path: path("spec", "selector"), one: true, known: true},
		{kind: apps.WithKind("Deployment"), path: path("spec", "template", "metadata", "annotations"), known: true},
		{kind: custom, path: path("limits"), known: true},
		{kind: custom, path: path("pick"), one: true, known: true},
		{kind: custom, path: path("free"), known: true},
		{kind: custom, path: path("free", "any"), known: true},
		{kind: custom, path: path("free", "any"), list: true, one: true, known: true},
		{kind: custom, path: path("tags"), list: true, known: true},
		{kind: custom, path: path("words"), list: true, one: true, known: true},
		{kind: custom, path: path("rules"), list: true, known: true},
		{kind: custom, path: path("rules", named, "inner"), known: true},
		{kind: custom, path: path("rules", 0, "outer"), one: true, known: true},
		{kind: custom.GroupVersion().WithKind("Inner"), path: path("a")},
		{kind: schema.GroupVersionKind{Group: "gone.example.net", Version: "v1", Kind: "Whole"}, path: path("limits")},
	} {
		one, known := fields.DeclaredFor(t.Context(), test.kind)(test.path, test.list)
		if one != test.one || known != test.known {
			t.Errorf("%s %s, list %t: one value %t, known %t; want %t and %t", test.kind.Kind, test.path, test.list, one, known, test.one, test.known)
		}
	}
}

// TestAskedSeldom counts requests: one for all questions about an object, none for answers that
// are kept, and one again when they are too old.
func TestAskedSeldom(t *testing.T) {
	t.Parallel()
	s := ofKubernetes(t)
	clock := now()
	fields := s.fields(t, clock)
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	ask := func(want int64, kind schema.GroupVersionKind, names ...string) {
		t.Helper()
		declared := fields.DeclaredFor(t.Context(), kind)
		for _, name := range names {
			declared(path(name), false)
		}
		if asked := s.asked.Swap(0); asked != want {
			t.Errorf("the server was asked %d times, want %d", asked, want)
		}
	}
	ask(1, kind, "data", "binaryData", "metadata")
	ask(0, kind, "data", "metadata")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { fields.DeclaredFor(t.Context(), kind)(path("metadata", "labels"), false) })
	}
	all.Wait()
	ask(1, kind) // by the first of ten
	clock.SetTime(clock.Now().Add(knownFor + time.Second))
	ask(1, kind, "data")
	unknown := schema.GroupVersionKind{Group: "gone.example.net", Version: "v1", Kind: "Whole"}
	ask(1, unknown, "limits", "pick")
	ask(0, unknown, "limits", "pick")
	clock.SetTime(clock.Now().Add(unknownFor + time.Second))
	ask(1, unknown, "limits")
}

// TestTypesAreDecodedWhenThereIsRoom asks for those of Kubernetes while others decode as much as
// there is room for.
func TestTypesAreDecodedWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	clock, memory := now(), decoding.NewMemory(realclock.RealClock{})
	fields := ofKubernetes(t).fieldsWith(t, clock, memory)
	known := func(ctx context.Context) bool {
		_, known := fields.DeclaredFor(ctx, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})(path("data"), false)
		return known
	}
	var ends []func()
	for _, cluster := range []string{"c2", "c3"} {
		ctx, end := memory.BeginReservation(t.Context(), cluster)
		expect.NoError(t, decoding.TakeMemory(ctx, 192<<20))
		ends = append(ends, end)
	}
	soon, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if known(soon) {
		t.Error("what is declared was decoded without room for it")
	}
	for _, end := range ends {
		end()
	}
	for range 10 { // more than there is room for, if what is no longer there counted
		if !known(t.Context()) {
			t.Error("what is declared is not known although there is room")
		}
		clock.SetTime(clock.Now().Add(knownFor + time.Second))
	}
}

// TestHostile has a server declare what none does.
func TestHostile(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: "example.net", Version: "v1", Kind: "Whole"}
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 20_000)
	for name, components := range map[string]string{
		"nothing":               `null`,
		"null for a type":       `{"schemas":{"a":null}}`,
		"no types":              `{"schemas":[]}`,
		"a type of no type":     whole + `"pick":{"type":"x"}}}}}`,
		"a list of two types":   whole + `"pick":{"type":"array","items":[{"type":"string"},{"type":"string"}]}}}}}`,
		"a type that is itself": `{"schemas":{"w":{"$ref":"#/components/schemas/w","x-kubernetes-group-version-kind":[{"group":"example.net","kind":"Whole","version":"v1"}]}}}`,
		"kinds that are texts":  `{"schemas":{"w":{"type":"object","x-kubernetes-group-version-kind":["Whole",1,null]}}}`,
		"too many objects":      whole + strings.Repeat(`"a":{},`, tokensMax) + members,
		"too many bytes":        whole + `"a":{"description":"` + strings.Repeat("x", bytesMax) + `"},` + members,
		"too deep":              whole + `"pick":` + deep,
		"half":                  whole,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{documents: map[string]string{"/openapi/v3/apis/example.net/v1": `{"components":` + components + `}`}}
			if one, known := s.fields(t, now()).DeclaredFor(t.Context(), kind)(path("pick"), false); one || known {
				t.Errorf("one value %t, known %t", one, known)
			}
		})
	}
}
