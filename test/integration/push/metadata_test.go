// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/kube/watch"
)

// fullServer has objects with as many annotations as Kubernetes takes, of characters that are two in JSON:
// 127 of them are all that is taken of a list.
type fullServer struct {
	t       *testing.T
	objects int
	text    string // of each
	streams bool   // lists
}

func (f *fullServer) object(n int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("thing-%04d", n), ResourceVersion: "1", Annotations: map[string]string{"text": f.text},
		},
	}
}

// ServeHTTP implements http.Handler.
func (f *fullServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query, out := r.URL.Query(), json.NewEncoder(w)
	switch {
	case query.Get("watch") == "":
		f.list(w, query.Get("limit"), query.Get("continue"))
		return
	case query.Get("sendInitialEvents") != "" && !f.streams:
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = out.Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		return
	case query.Get("sendInitialEvents") != "":
		for n := range f.objects {
			f.event(out, "ADDED", f.object(n))
		}
		end := f.object(0)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		f.event(out, "BOOKMARK", end)
	}
	w.(http.Flusher).Flush() //nolint:forcetypeassert // it is one
	<-r.Context().Done()
}

func (f *fullServer) event(out *json.Encoder, kind string, object runtime.Object) {
	raw, err := json.Marshal(object)
	if err != nil {
		f.t.Error(err)
	}
	_ = out.Encode(metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}) // who has had enough closes
}

func (f *fullServer) list(w http.ResponseWriter, limit, next string) {
	most, err := strconv.Atoi(limit)
	if err != nil {
		most = f.objects
	}
	from, _ := strconv.Atoi(next)
	page := &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
	}
	for n := from; n < min(from+most, f.objects); n++ {
		page.Items = append(page.Items, *f.object(n))
	}
	if end := from + len(page.Items); end < f.objects {
		page.Continue = strconv.Itoa(end)
	}
	_ = json.NewEncoder(w).Encode(page) // who has had enough closes
}

// TestAnObjectsMetadataKeepsNoWatchFromBeginning has a user of a member label some hundreds of objects as if
// works had made them, and give each as many annotations as it may have: more than is taken of a list.
func TestAnObjectsMetadataKeepsNoWatchFromBeginning(t *testing.T) {
	for name, streams := range map[string]bool{"lists are streamed": true, "lists are read in pages": false} {
		t.Run(name, func(t *testing.T) {
			f := &fullServer{t: t, objects: 140, text: strings.Repeat(`"`, 256<<10), streams: streams}
			server := httptest.NewServer(f)
			t.Cleanup(server.CloseClientConnections)
			config := &rest.Config{Host: server.URL, QPS: -1}
			dial.LimitAnswers(config)
			client, err := metadata.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
			told := make(chan []*metav1.PartialObjectMetadata, 1)
			run := watch.Watch[*metav1.PartialObjectMetadata]{Source: watch.IdentitySource(client, things, watch.ObjectSelector{}), Handler: first{t, told}}
			ctx := dial.ReducedContext(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); run.RunReflector(ctx) }()
			t.Cleanup(func() { <-done })
			objects := <-told
			if len(objects) != f.objects {
				t.Fatalf("%d of %d objects are told", len(objects), f.objects)
			}
			for _, object := range objects {
				if object.Namespace != "shop" || object.ResourceVersion != "1" || len(object.Annotations) > 0 {
					t.Fatalf("told is %s with %d annotations", object.Name, len(object.Annotations))
				}
			}
		})
	}
}

// first is a Handler that tells all objects once.
type first struct {
	t    *testing.T
	told chan []*metav1.PartialObjectMetadata
}

func (f first) Replace(objects []*metav1.PartialObjectMetadata, _ string) {
	select {
	case f.told <- objects:
	default:
	}
}
func (first) Update(*metav1.PartialObjectMetadata) {}
func (first) Delete(*metav1.PartialObjectMetadata) {}
func (first) Bookmark(string)                      {}
func (f first) Failed(err error)                   { f.t.Logf("it is tried again: %v", err) }
