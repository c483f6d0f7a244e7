// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

func memberAt(t *testing.T, url string, parallel int, memory *decoding.Memory) *Member {
	t.Helper()
	member, err := NewMember(MemberOptions{Config: &rest.Config{Host: url, QPS: -1}, Client: &http.Client{}, Parallel: parallel, Memory: memory, Cluster: "c1"})
	expect.NoError(t, err)
	return member
}

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
			member := memberAt(t, server.URL, parallel, nil)
			var running sync.WaitGroup
			for range requests {
				running.Go(func() {
					if _, err := member.Get(t.Context(), "v1", ObjectRef{Resource: "configmaps", Namespace: "n", Name: "a"}); err != nil {
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
			member := memberAt(t, server.URL, 1, nil)
			object := ObjectRef{Resource: "configmaps", Namespace: "n", Name: "a"}
			_, errRead := member.ReadObject(t.Context(), "v1", object)
			_, errGet := member.Get(t.Context(), "v1", object)
			_, errApply := member.Apply(t.Context(), "v1", object, []byte("{}"), FieldWriter{})
			for by, err := range map[string]error{"Read": errRead, "Get": errGet, "Apply": errApply} {
				if taken := test.whole && by != "Read"; taken != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: got %v", by, err)
				}
			}
		})
	}
}

// TestAnswersAreDecodedWhenThereIsRoom has a server answer with more values than are taken, while
// others decode as much as there is room for.
func TestAnswersAreDecodedWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	values := strings.Builder{}
	for i := range valuesMax {
		fmt.Fprintf(&values, `"%x":{},`, i)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := `"apiVersion":"v1","kind":"ConfigMap"`
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			kind = `"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata"`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data":{`+values.String()+`"z":{}},`+kind+`,"metadata":{"name":"a"}}`)
	}))
	defer server.Close()
	memory := decoding.NewMemory(clock.RealClock{})
	member := memberAt(t, server.URL, 1, memory)
	object := ObjectRef{Resource: "configmaps", Namespace: "n", Name: "a"}
	requests := map[string]func(context.Context) error{
		"Read": func(ctx context.Context) error { _, err := member.ReadObject(ctx, "v1", object); return err },
		"Get":  func(ctx context.Context) error { _, err := member.Get(ctx, "v1", object); return err },
		"Apply": func(ctx context.Context) error {
			_, err := member.Apply(ctx, "v1", object, []byte("{}"), FieldWriter{})
			return err
		},
		"Create": func(ctx context.Context) error {
			_, err := member.Create(ctx, "v1", object, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`), "m")
			return err
		},
	}
	var ends []func()
	for _, cluster := range []string{"c2", "c3"} {
		ctx, end := memory.BeginReservation(t.Context(), cluster)
		expect.NoError(t, decoding.TakeMemory(ctx, 192<<20))
		ends = append(ends, end)
	}
	for by, request := range requests {
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := request(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want that it waits for room", by, err)
		}
		cancel()
	}
	for _, end := range ends {
		end()
	}
	for range 3 { // more than there is room for, if what is no longer there counted
		for by, request := range requests {
			if err := request(t.Context()); (err != nil) != (by == "Read") || by == "Read" && !strings.Contains(err.Error(), "values") {
				t.Errorf("%s: got %v", by, err)
			}
		}
	}
}
