// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
