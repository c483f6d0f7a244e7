// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestManyLargeRequestsTakeTurns is what whoever may only try to write one of the kinds can
// do to the memory of a webhook: large objects, all at once.
func TestManyLargeRequestsTakeTurns(t *testing.T) {
	const requests, size = 30, 3 << 20
	l := newLoad()
	l.turn = 10 * time.Minute // none is refused, however slow the machine is
	var inWork, most atomic.Int64
	server := httptest.NewServer(l.limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		now := inWork.Add(r.ContentLength)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
		}
		if read, err := io.Copy(io.Discard, r.Body); err != nil || read != size {
			t.Errorf("read %d bytes: %v", read, err)
		}
		inWork.Add(-r.ContentLength)
	})))
	defer server.Close()
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			if answer, err := post(t, server, size); err != nil {
				t.Error(err)
			} else if answer.StatusCode != http.StatusOK {
				t.Errorf("got %s", answer.Status)
			}
		})
	}
	all.Wait()
	if most.Load() > inWorkMax {
		t.Errorf("%d bytes were in work at a time, want at most %d", most.Load(), inWorkMax)
	}
	if !l.free.TryAcquire(inWorkMax) {
		t.Error("requests that are answered still count")
	}
}

// TestARequestWhoseTurnDoesNotComeIsToldSo has the answer that the API server shows its user.
func TestARequestWhoseTurnDoesNotComeIsToldSo(t *testing.T) {
	l := newLoad()
	l.turn = time.Millisecond
	server := httptest.NewServer(l.limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was read") })))
	defer server.Close()
	if !l.free.TryAcquire(inWorkMax) {
		t.Fatal("something is in work")
	}
	answer, err := post(t, server, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var status metav1.Status
	if err := json.Unmarshal(answer.body, &status); err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusTooManyRequests || status.Reason != metav1.StatusReasonTooManyRequests || status.Message != "the webhook has too many requests in work: try again later" {
		t.Errorf("got %s, %+v", answer.Status, status)
	}
}

type answer struct {
	*http.Response

	body []byte
}

func post(t *testing.T, server *httptest.Server, size int) (answer, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(make([]byte, size)))
	if err != nil {
		return answer{}, err
	}
	response, err := server.Client().Do(request)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(response.Body)
	return answer{Response: response, body: body}, errors.Join(err, response.Body.Close())
}
