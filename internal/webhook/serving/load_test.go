// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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
	if most.Load() > shareMax {
		t.Errorf("%d bytes of one address were in work at a time, want at most %d", most.Load(), shareMax)
	}
	if !l.free.TryAcquire(inWorkMax) || len(l.shares) > 0 {
		t.Error("requests that are answered still count")
	}
}

// TestNobodyHasAllTheRoom has somebody in the network announce many requests, of which
// nothing comes, while an API server asks from another address.
func TestNobodyHasAllTheRoom(t *testing.T) {
	const requests, size = 40, 1 << 20
	l := newLoad()
	l.turn, l.arrival = 10*time.Minute, 10*time.Minute // none is refused, however slow the machine is
	var asked, inWork atomic.Int64
	ended := make(chan struct{})
	limited := l.limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			inWork.Add(1)
			<-ended
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil && r.URL.Path != "/held" { // nobody waits for those
			t.Error(err)
		}
	}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		limited.ServeHTTP(w, r)
	}))
	defer server.Close()
	var all sync.WaitGroup
	defer all.Wait()
	defer close(ended)
	for range requests {
		all.Go(func() {
			if err := from(t, "127.0.0.2", server.URL+"/held", size); err != nil {
				t.Error(err)
			}
		})
	}
	for end := time.Now().Add(5 * time.Minute); asked.Load() < requests || inWork.Load() < shareMax/size; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d requests came, and %d are in work", asked.Load(), inWork.Load())
		}
	}
	if err := from(t, "127.0.0.1", server.URL, requestMax); err != nil {
		t.Errorf("another has no room: %v", err)
	}
	if most := inWork.Load(); most > shareMax/size {
		t.Errorf("%d requests of one address are in work, want at most %d", most, shareMax/size)
	}
}

// TestAnAnswerMayTakeLongerThanItsRequest has a request arrive at once, and another never.
func TestAnAnswerMayTakeLongerThanItsRequest(t *testing.T) {
	l := newLoad()
	l.arrival = 2 * time.Second
	server := httptest.NewServer(l.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
			return
		}
		time.Sleep(2 * l.arrival)
		if r.Context().Err() != nil {
			t.Error("it was ended while it was answered")
		}
	})))
	defer server.Close()
	if answer, err := post(t, server, 10); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("got %v, %v", answer, err)
	}
	pending, announced := io.Pipe()
	defer announced.Close() //nolint:errcheck // nobody reads it
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, pending)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = 10
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a request of which nothing comes is answered %s", response.Status)
	}
	_ = response.Body.Close()
}

// from sends a request from an address of this host.
func from(t *testing.T, address, url string, size int) error {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: 5 * time.Minute}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(make([]byte, size)))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
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

// TestOnlyJSONIsRead posts what a decoder of the API would read as YAML.
func TestOnlyJSONIsRead(t *testing.T) {
	read := 0
	server := httptest.NewServer(jsonOnly(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			read = len(body)
		}
	})))
	defer server.Close()
	for body, want := range map[string]int{`{"a":1}`: http.StatusOK, "": http.StatusOK, "- &a b\n- *a": http.StatusUnsupportedMediaType, " {}": http.StatusUnsupportedMediaType} {
		read = 0
		answer, err := http.Post(server.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want || want == http.StatusOK && read != len(body) {
			t.Errorf("%q is answered with %s, and %d bytes of it are read", body, answer.Status, read)
		}
	}
}
