// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// TestManyLargeRequestsTakeTurns is what whoever may only try to write one of the kinds can
// do to the memory of a webhook: large objects, all at once.
func TestManyLargeRequestsTakeTurns(t *testing.T) {
	const requests, size = 30, 3 << 20
	l := newRequestLoad(clock.RealClock{})
	l.turn, l.arrival = 10*time.Minute, 10*time.Minute // none is refused, however slow the machine is
	var inWork, most atomic.Int64
	server := httptest.NewServer(l.limitHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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
	if !l.large.IsEmpty() || !l.small.IsEmpty() || !l.payers.IsEmpty() {
		t.Error("requests that are answered still count")
	}
}

// TestDenseRequestsTakeTurns has somebody send many short requests, of which each becomes
// some hundred times its bytes when it is decoded.
func TestDenseRequestsTakeTurns(t *testing.T) {
	values := strings.Repeat("0,", 30_000)
	body := func(n int) []byte { // each for a namespace of its own
		return fmt.Appendf(nil, `{"request":{"namespace":"shop-%03d"},"spec":{"overrideRules":[%s0]}}`, n, values)
	}
	inRoom := smallShareMax / len(body(0)) // before they are decoded
	l := newRequestLoad(clock.RealClock{})
	l.turn, l.arrival = 10*time.Minute, 10*time.Minute // none is refused, however slow the machine is
	var inWork atomic.Int64
	ended := make(chan struct{})
	server := httptest.NewServer(l.limitHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/few" {
			return
		}
		inWork.Add(1)
		<-ended
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		if read, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(read, body(n)) {
			t.Errorf("read %d bytes: %v", len(read), err)
		}
	})))
	defer server.Close()
	var all sync.WaitGroup
	defer all.Wait()
	defer close(ended)
	for n := range inRoom {
		all.Go(func() {
			if answer, err := http.Post(fmt.Sprint(server.URL, "?n=", n), "application/json", bytes.NewReader(body(n))); err != nil {
				t.Error(err)
			} else if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
				t.Errorf("got %s", answer.Status)
			}
		})
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		waiting := l.decoded.WaitingCount()
		if int(inWork.Load())+waiting == inRoom {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d requests are in work and %d wait, want %d together", inWork.Load(), waiting, inRoom)
		}
	}
	if takes := inWork.Load() * decoding.DecodedBytes(body(0)); takes > decodedShareMax {
		t.Errorf("%d requests are in work, which take %d bytes when they are decoded, want at most %d", inWork.Load(), takes, decodedShareMax)
	}
	few := `{"spec":[` + strings.Repeat("0,", 500) + `0]}`
	if answer, err := http.Post(server.URL+"/few", "application/json", strings.NewReader(few)); err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("a request with few values does not come in: %v, %v", answer, err)
	}
}

// TestWhatARequestTakesWhenItIsDecoded sends as many values as can be stored, and more.
func TestWhatARequestTakesWhenItIsDecoded(t *testing.T) {
	const stored = 1536 << 10 // bytes of an object, of which there may be two
	if most := decoding.DecodedBytes([]byte(strings.Repeat("{},", 2*stored/3))); most > decodedShareMax {
		t.Errorf("two objects that can be stored take up to %d bytes, more than the %d of an address", most, decodedShareMax)
	}
	l := newRequestLoad(clock.RealClock{})
	l.turn, l.arrival = 10*time.Minute, 10*time.Minute
	server := httptest.NewServer(l.limitHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was decoded") })))
	defer server.Close()
	answer, err := http.Post(server.URL, "application/json", strings.NewReader(strings.Repeat("0,", requestMax/2-1)))
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a request of more values is answered with %s", answer.Status)
	}
}

// TestNobodyHasAllTheRoom has somebody in the network announce many requests, of which
// nothing comes, while an API server asks from another address.
func TestNobodyHasAllTheRoom(t *testing.T) {
	const requests, size = 40, 1 << 20
	l := newRequestLoad(clock.RealClock{})
	l.turn, l.arrival = 10*time.Minute, 10*time.Minute // none is refused, however slow the machine is
	var asked, inWork atomic.Int64
	ended := make(chan struct{})
	limited := l.limitHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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

// TestLargeRequestsKeepNoSmallOneWaiting has somebody with several addresses hold all the
// room for large requests, and announce others.
func TestLargeRequestsKeepNoSmallOneWaiting(t *testing.T) {
	l := newRequestLoad(clock.RealClock{})
	l.turn, l.arrival = 10*time.Minute, 10*time.Minute // none is refused, however slow the machine is
	var inWork, asked atomic.Int64
	ended := make(chan struct{})
	limited := l.limitHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			inWork.Add(1)
			<-ended
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
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
	const addresses = 8
	for i := range addresses {
		all.Go(func() {
			if err := from(t, fmt.Sprintf("127.0.0.%d", i+2), server.URL+"/held", 6<<20); err != nil {
				t.Error(err)
			}
		})
	}
	for end := time.Now().Add(5 * time.Minute); asked.Load() < addresses || inWork.Load() < inWorkMax/(6<<20); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d requests came, and %d are in work", asked.Load(), inWork.Load())
		}
	}
	for _, size := range []int{0, 1000, smallMax} {
		if err := from(t, "127.0.0.1", server.URL, size); err != nil {
			t.Errorf("a request of %d bytes has no room: %v", size, err)
		}
	}
	if most := inWork.Load(); most > inWorkMax/(6<<20) {
		t.Errorf("%d large requests are in work, want at most %d", most, inWorkMax/(6<<20))
	}
}

// TestWhatIsAnnouncedTakesNoRoomOfLargeRequests announces requests of which nothing comes.
func TestWhatIsAnnouncedTakesNoRoomOfLargeRequests(t *testing.T) {
	l := newRequestLoad(clock.RealClock{})
	l.arrival = 10 * time.Minute
	server := httptest.NewServer(l.limitHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()
	const requests = 20
	for range requests {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close() //nolint:errcheck // the test is over
		if _, err := fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{", requestMax); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		free := l.small.FreeBytes()
		if free == smallInWorkMax-requests*smallMax {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes are free for small requests", free)
		}
	}
	if free := l.large.FreeBytes(); free != inWorkMax {
		t.Errorf("%d bytes are free for large requests, want all %d", free, inWorkMax)
	}
}

// TestAnAnswerMayTakeLongerThanItsRequest has a request arrive at once, and another never.
func TestAnAnswerMayTakeLongerThanItsRequest(t *testing.T) {
	l := newRequestLoad(clock.RealClock{})
	l.arrival = 2 * time.Second
	server := httptest.NewServer(l.limitHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	l := newRequestLoad(clock.RealClock{})
	l.turn = time.Millisecond
	server := httptest.NewServer(l.limitHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was read") })))
	defer server.Close()
	for i := range 2 {
		if l.small.AcquireBytes(t.Context(), fmt.Sprint("somebody ", i), smallInWorkMax/2) == nil {
			t.Fatal("something is in work")
		}
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
