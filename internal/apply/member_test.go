// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// TestABusyServerIsLeftAlone has a server refuse requests and say when to come
// again: nothing is sent before, and those that wait keep their places, so that
// no others come instead.
func TestABusyServerIsLeftAlone(t *testing.T) {
	const parallel, requests = 2, 6
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			var refused, tooSoon atomic.Int32
			var refusedAt atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if refused.Load() < parallel {
					refusedAt.Store(time.Now().UnixNano())
					refused.Add(1)
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(status)
					return
				}
				if time.Since(time.Unix(0, refusedAt.Load())) < 900*time.Millisecond {
					tooSoon.Add(1)
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"a"}}`)
			}))
			defer server.Close()
			client, err := metadata.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			member := NewMember(client, nil, parallel)
			var running sync.WaitGroup
			for range requests {
				running.Go(func() {
					if _, err := member.Get(t.Context(), "v1", Object{Resource: "configmaps", Namespace: "n", Name: "a"}); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
			if refused.Load() < parallel || tooSoon.Load() > 0 {
				t.Errorf("%d requests were refused, and %d came too soon after that", refused.Load(), tooSoon.Load())
			}
		})
	}
}

// TestWhatIsTakenOfAnObject has a server answer with objects that no API server can store.
func TestWhatIsTakenOfAnObject(t *testing.T) {
	t.Parallel()
	many := func(item string) string {
		return `[` + strings.TrimSuffix(strings.Repeat(item+",", sharersMax+1), ",") + `]`
	}
	labels := ""
	for i := range marksMax {
		labels += fmt.Sprintf(`"l%d":"",`, i)
	}
	for name, test := range map[string]struct {
		object string
		// whole says that it may be taken if only its metadata is read.
		whole bool
		want  string
	}{
		"managers": {object: `"metadata":{"name":"a","managedFields":` + many(`{"manager":"m"}`) + `}`, want: "metadata.managedFields"},
		"owners":   {object: `"metadata":{"name":"a","ownerReferences":` + many(`{"uid":"u"}`) + `}`, want: "owners"},
		"fields": {
			object: `"metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":{"f:` + strings.Repeat("x", fieldsBytesMax) + `":{}}}]}`,
			want:   "bytes of fields",
		},
		"labels": {object: `"metadata":{"name":"a","labels":{` + labels + `"z":""}}`, want: "labels"},
		"values": {object: `"metadata":{"name":"a"},"l":[` + strings.Repeat("1,", valuesMax) + `1]`, whole: true, want: "values"},
		"depth": {
			object: `"metadata":{"name":"a"},"d":` + strings.Repeat(`{"a":`, 2*depthMax) + "1" + strings.Repeat("}", 2*depthMax), whole: true, want: "nested",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				kind := `"apiVersion":"v1","kind":"ConfigMap",`
				if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
					kind = `"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata",`
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, "{"+kind+test.object+"}")
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL, QPS: -1}
			client, err := metadata.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			bodies, err := dynamic.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			member := NewMember(client, bodies, 1)
			object := Object{Resource: "configmaps", Namespace: "n", Name: "a"}
			_, errRead := member.Read(t.Context(), "v1", object)
			_, errGet := member.Get(t.Context(), "v1", object)
			_, errApply := member.Apply(t.Context(), "v1", object, []byte("{}"), As{})
			for by, err := range map[string]error{"Read": errRead, "Get": errGet, "Apply": errApply} {
				if taken := test.whole && by != "Read"; taken != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: got %v", by, err)
				}
			}
		})
	}
}
