// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
)

// reviewOf is a review as API servers write it, of an object with so many bytes.
func reviewOf(t *testing.T, namespace, user string, bytes int) string {
	t.Helper()
	object, err := json.Marshal(map[string]any{"request": map[string]any{"namespace": "forged"}, "data": strings.Repeat("x", bytes)})
	if err != nil {
		t.Fatal(err)
	}
	review, err := json.Marshal(admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "1", Name: "web", Namespace: namespace, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
		UserInfo: authenticationv1.UserInfo{Username: user, Groups: []string{"system:authenticated"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(review)
}

// TestAReviewIsForWhoUsesTheNamespace reads reviews whole, and as much of them as comes at first.
func TestAReviewIsForWhoUsesTheNamespace(t *testing.T) {
	large := reviewOf(t, "shop", "eve", 2*smallMax)
	for name, c := range map[string]struct{ begin, want string }{
		"in a namespace":          {begin: reviewOf(t, "shop", "eve", 10), want: "10.0.0.1 shop"},
		"in none":                 {begin: reviewOf(t, "", "eve", 10), want: "10.0.0.1 user eve"},
		"large":                   {begin: large[:smallMax], want: "10.0.0.1 shop"},
		"large, in none":          {begin: reviewOf(t, "", "eve", 2*smallMax)[:smallMax], want: "10.0.0.1 user eve"},
		"a user with a long name": {begin: reviewOf(t, "", strings.Repeat("e", smallMax), 10), want: "10.0.0.1 user " + strings.Repeat("e", payerNameMax-len("user "))},
		"cut before the user":     {begin: `{"request":{"uid":"1","nam`, want: "10.0.0.1 user "},
		"another type":            {begin: `{"request":{"namespace":["shop"]}}`, want: "10.0.0.1 user "},
		"no object":               {begin: `[{"request":{"namespace":"shop"}}]`, want: "10.0.0.1 user "},
		"no JSON":                 {begin: string(make([]byte, 100)), want: "10.0.0.1 user "},
		"nothing":                 {want: "10.0.0.1 user "},
	} {
		if got := payerOf("10.0.0.1", []byte(c.begin)); got != c.want {
			t.Errorf("%s: it is for %q, want %q", name, got, c.want)
		}
	}
}

// TestSlowRequestsOfANamespaceKeepNobodyElseWaiting has a tenant send many requests at once, of which each takes long,
// by the API server from which those of all others come.
func TestSlowRequestsOfANamespaceKeepNobodyElseWaiting(t *testing.T) {
	const requests = 200
	for name, size := range map[string]int{"small": smallMax - 1<<10, "large": 2 * smallMax} {
		t.Run(name, func(t *testing.T) {
			l := newRequestLoad(clock.RealClock{})
			l.turn, l.arrival = 10*time.Minute, 10*time.Minute // none is refused, however slow the machine is
			var inWork atomic.Int64
			ended := make(chan struct{})
			server := httptest.NewServer(l.limitHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					inWork.Add(1)
					<-ended
				}
				if _, err := io.Copy(w, r.Body); err != nil {
					t.Error(err)
				}
			})))
			defer server.Close()
			send := func(ctx context.Context, path, namespace string) error {
				review := reviewOf(t, namespace, "eve", size)
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+path, strings.NewReader(review))
				if err != nil {
					return err
				}
				answer, err := server.Client().Do(request)
				if err != nil {
					return err
				}
				defer answer.Body.Close() //nolint:errcheck // it is read
				if text, err := io.ReadAll(answer.Body); err != nil || string(text) != review {
					return fmt.Errorf("%s with %d bytes, want the %d that were sent: %w", answer.Status, len(text), len(review), err)
				}
				return nil
			}
			var all sync.WaitGroup
			defer all.Wait()
			defer close(ended)
			for range requests {
				all.Go(func() {
					if err := send(t.Context(), "/slow", "shop"); err != nil {
						t.Error(err)
					}
				})
			}
			for end := time.Now().Add(5 * time.Minute); int(inWork.Load())+l.payers.WaitingCount()+l.small.WaitingCount()+l.large.WaitingCount() < requests; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d requests are in work, and %d wait", inWork.Load(), l.payers.WaitingCount())
				}
			}
			soon, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := send(soon, "/", "school"); err != nil {
				t.Errorf("a request of another namespace, while %d of the one are in work: %v", inWork.Load(), err)
			}
			if most := inWork.Load(); most > payerMax {
				t.Errorf("%d requests of a namespace are in work, want at most %d", most, payerMax)
			}
		})
	}
}
