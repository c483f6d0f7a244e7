// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package callout

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/longkey"
)

// serve starts a server, and returns a target that leads to it.
func serve(t *testing.T, handler http.HandlerFunc) (*httptest.Server, Target) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server, Target{Name: "a/b", URL: server.URL + "/interpret", CABundle: bundle, Timeout: 10 * time.Second}
}

func caller(t *testing.T, resolve ResolveFunc) (*Caller, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Now())
	c := NewCaller(CallerOptions{Clock: clock, Resolve: resolve})
	t.Cleanup(c.end)
	return c, clock
}

func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// wait waits until who asks is gone, which shows when the question was read.
func wait(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestWhatIsWrongWithAServer(t *testing.T) {
	other := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer other.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	expect.NoError(t, closed.Close())
	plain := httptest.NewServer(http.HandlerFunc(echo))
	defer plain.Close()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		target  func(*Target)
		want    string
		remedy  string
	}{
		"it answers":      {handler: echo},
		"another status":  {handler: http.NotFound, want: "it answers with status 404, want 200", remedy: "Check the path in clientConfig"},
		"it has an error": {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, want: "status 500"},
		"it redirects": {handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, want: "status 307", remedy: "Redirects are not followed"},
		"it answers a lot":    {handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, answerMax+1)) }, want: "larger than 4194304 bytes"},
		"it answers much":     {handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, answerMax)) }},
		"it breaks off":       {handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: "the connection broke"},
		"it never answers":    {handler: func(_ http.ResponseWriter, r *http.Request) { wait(r) }, target: func(to *Target) { to.Timeout = 100 * time.Millisecond }, want: "it has not answered within 100ms", remedy: "raise timeoutSeconds"},
		"it never ends":       {handler: func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); wait(r) }, target: func(to *Target) { to.Timeout = 100 * time.Millisecond }, want: "it has not answered within 100ms"},
		"another CA":          {handler: echo, target: func(to *Target) { to.CABundle = otherCA(t) }, want: "not signed by a CA in clientConfig.caBundle", remedy: "Set caBundle"},
		"no CA":               {handler: echo, target: func(to *Target) { to.CABundle = nil }, want: "signed by a CA that the system does not trust", remedy: "Set clientConfig.caBundle"},
		"no CA in the bundle": {handler: echo, target: func(to *Target) { to.CABundle = []byte("x") }, want: "caBundle contains no certificate"},
		"a CA of a megabit":   {handler: echo, target: func(to *Target) { to.CABundle = longkey.AuthorityPEM(t, 1<<20) }, want: "caBundle contains a certificate, of \"long\", that cannot be used"},
		"another name":        {handler: echo, target: func(to *Target) { to.URL = strings.Replace(to.URL, "127.0.0.1", "localhost", 1) }, want: `its certificate is not for "localhost"`},
		"nobody listens":      {target: func(to *Target) { to.URL = "https://" + closed.Addr().String() }, want: "the connection was refused", remedy: "Check that it runs"},
		"no such name":        {target: func(to *Target) { to.URL = "https://nowhere.invalid" }, want: `the name "nowhere.invalid" does not resolve`},
		"no TLS":              {target: func(to *Target) { to.URL = strings.Replace(plain.URL, "http:", "https:", 1) }, want: "does not speak TLS"},
		"http":                {target: func(to *Target) { to.URL = plain.URL }, want: "its URL is none of HTTPS"},
		"credentials":         {target: func(to *Target) { to.URL = "https://me:secret@example.com" }, want: "has credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			_, target := serve(t, c.handler)
			if c.target != nil {
				c.target(&target)
			}
			calls, _ := caller(t, nil)
			answer, err := calls.Lines([]Target{target})[0].PostDocument([]byte("question"))
			switch {
			case c.want != "":
				checkProblem(t, err, c.want, c.remedy)
			case err != nil || len(answer) == 0:
				t.Errorf("it has no answer: %v", err)
			}
		})
	}
}

// TestHandshakesOfServersAreBounded has a server show so many certificates that a caller decodes megabytes of them.
func TestHandshakesOfServersAreBounded(t *testing.T) {
	ordinary, target := serve(t, echo)
	own := ordinary.TLS.Certificates[0]
	for count, why := range map[int]string{8: "", 200: "before TLS is agreed on"} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: slices.Repeat(own.Certificate, count), PrivateKey: own.PrivateKey}}}
		server.StartTLS()
		t.Cleanup(server.Close)
		target.URL = server.URL
		calls, _ := caller(t, nil)
		switch _, err := calls.Lines([]Target{target})[0].PostDocument([]byte("question")); {
		case why != "":
			checkProblem(t, err, why, "")
		case err != nil:
			t.Errorf("with %d certificates it has no answer: %v", count, err)
		}
	}
}

// cutOff is a transport whose answer ends, as if it were whole, when its time is over.
type cutOff struct{}

// RoundTrip implements http.RoundTripper.
func (cutOff) RoundTrip(r *http.Request) (*http.Response, error) {
	body, ends := io.Pipe()
	go func() {
		_, _ = ends.Write([]byte("half of an answer"))
		<-r.Context().Done()
		_ = ends.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
}

// TestWhatMeansTheCallerItselfIsNotCalled has a server on loopback, by its address, its
// name, and as a Service.
func TestWhatMeansTheCallerItselfIsNotCalled(t *testing.T) {
	server, target := serve(t, echo)
	resolve := func(context.Context, ServiceRef) (string, error) { return server.Listener.Addr().String(), nil }
	byName, asService := target, target
	byName.URL = strings.Replace(target.URL, "127.0.0.1", "localhost", 1)
	asService.URL, asService.Service = "", &ServiceRef{Namespace: "shop", Name: "interpreter", Port: 443}
	for name, to := range map[string]Target{"address": target, "name": byName, "service": asService} {
		t.Run(name, func(t *testing.T) {
			by := NewCaller(CallerOptions{Clock: clocktesting.NewFakeClock(time.Now()), Resolve: resolve, Guard: &dial.AddressGuard{}})
			t.Cleanup(by.end)
			_, err := by.Lines([]Target{to})[0].PostDocument([]byte("a"))
			checkProblem(t, err, "is not called: it is a loopback address", "--allowed-networks")
		})
	}
	allowing := NewCaller(CallerOptions{Clock: clocktesting.NewFakeClock(time.Now()), Guard: &dial.AddressGuard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	t.Cleanup(allowing.end)
	if _, err := allowing.Lines([]Target{target})[0].PostDocument([]byte("a")); err != nil {
		t.Errorf("a server whose network is allowed is not called: %v", err)
	}
}

func TestAProxyIsNotSentWhereNothingMayBeDialled(t *testing.T) {
	proxy := &url.URL{Scheme: "http", Host: "proxy.example.com"}
	choose := guardProxy(func(*http.Request) (*url.URL, error) { return proxy, nil }, dial.AddressGuard{})
	for to, want := range map[string]bool{"https://169.254.169.254/": false, "https://[fe80::1]:8443/": false, "https://203.0.113.7/": true, "https://example.com/": true} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, nil)
		expect.NoError(t, err)
		if chosen, err := choose(request); (err == nil) != want || (chosen == proxy) != want {
			t.Errorf("%s: got %v, %v", to, chosen, err)
		}
	}
}

func TestAnAnswerThatTheTimeoutCutsOffIsNone(t *testing.T) {
	by, _ := caller(t, nil)
	line := by.Lines([]Target{{Name: "a", URL: "https://example.com", Timeout: 50 * time.Millisecond}})[0]
	line.client.Transport = cutOff{}
	answer, err := line.PostDocument(nil)
	checkProblem(t, err, "it has not answered within 50ms", "raise timeoutSeconds")
	if answer != nil {
		t.Errorf("half an answer is taken: %q", answer)
	}
}

func checkProblem(t *testing.T, err error, want, remedy string) {
	t.Helper()
	var problem *Error
	switch {
	case !errors.As(err, &problem) || !strings.Contains(problem.Problem, want) || !strings.Contains(problem.Remedy, remedy):
		t.Errorf("got %v (%+v), want %q and %q", err, problem, want, remedy)
	case problem.Remedy == "" || problem.RetryAfter() <= 0:
		t.Errorf("nobody knows what to do, or when to call again: %+v", problem)
	}
}

// otherCA is the certificate of a CA that did not sign anything here.
func otherCA(t *testing.T) []byte {
	t.Helper()
	text, err := selfSigned()
	expect.NoError(t, err)
	return text
}

func TestAServerThatIsAwayIsLeftAlone(t *testing.T) {
	var calls atomic.Int32
	var away atomic.Bool
	_, target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		echo(w, r)
	})
	by, clock := caller(t, nil)
	line := by.Lines([]Target{target})[0]
	away.Store(true)
	post := func(want int32, well bool) string {
		t.Helper()
		_, err := line.PostDocument([]byte("a"))
		if (err == nil) != well || calls.Load() != want {
			t.Fatalf("got %v after %d calls, want success: %t, after %d", err, calls.Load(), well, want)
		}
		return fmt.Sprint(err)
	}
	first := post(1, false)
	if second := post(1, false); second != first {
		t.Errorf("the message changes: %q and then %q", first, second)
	}
	for waits, n := time.Second, int32(2); n < 10; n++ {
		clock.Step(waits - time.Millisecond)
		post(n-1, false)
		clock.Step(time.Millisecond)
		post(n, false)
		waits = min(2*waits, time.Minute)
	}
	clock.Step(time.Minute)
	away.Store(false)
	post(10, true)
	post(11, true)

	// Another configuration of it is another one; the same one is the same.
	away.Store(true)
	post(12, false)
	if by.Lines([]Target{target})[0] != line {
		t.Error("a target that did not change is called anew")
	}
	away.Store(false)
	target.Path, target.Timeout = "", time.Second
	line = by.Lines([]Target{target})[0]
	post(13, true)
}

// TestOneCallFindsOutWhetherAServerIsBack keeps others from waiting for it.
func TestOneCallFindsOutWhetherAServerIsBack(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	var failing atomic.Bool
	failing.Store(true)
	_, target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if failing.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		asked <- struct{}{}
		<-answer
		echo(w, r)
	})
	by, clock := caller(t, nil)
	line := by.Lines([]Target{target})[0]
	if _, err := line.PostDocument(nil); err == nil {
		t.Fatal("it answers")
	}
	failing.Store(false)
	clock.Step(time.Second)
	done := make(chan error)
	go func() { _, err := line.PostDocument(nil); done <- err }()
	<-asked
	if _, err := line.PostDocument(nil); err == nil || !strings.Contains(err.Error(), "status 502") {
		t.Errorf("got %v, want what was wrong before", err)
	}
	close(answer)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCallsInProgressAreLimited(t *testing.T) {
	_, target := serve(t, echo)
	target.Timeout = 100 * time.Millisecond
	by, _ := caller(t, nil)
	line := by.Lines([]Target{target})[0]
	for range callsMax {
		line.slots <- struct{}{}
	}
	if _, err := line.PostDocument(nil); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d calls to it are in progress", callsMax)) {
		t.Errorf("one more: %v", err)
	}
}

// TestCallsOfABurstWait calls a server that is slow more often at a time than it may be
// called.
func TestCallsOfABurstWait(t *testing.T) {
	const takes, rounds = 200 * time.Millisecond, 5
	var now, most atomic.Int32
	_, target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for n, before := now.Add(1), most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
		}
		time.Sleep(takes)
		now.Add(-1)
		echo(w, r)
	})
	by, _ := caller(t, nil)
	line := by.Lines([]Target{target})[0]
	var all sync.WaitGroup
	for range rounds * callsMax {
		all.Go(func() {
			if _, err := line.PostDocument([]byte("a")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most.Load() > callsMax {
		t.Errorf("there were %d calls at a time, want %d", most.Load(), callsMax)
	}
}

// TestTheTimeOfACallBeginsWithIt waits longer, and is answered later, than half of the
// time that a call may take.
func TestTheTimeOfACallBeginsWithIt(t *testing.T) {
	const most = 2 * time.Second
	_, target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(most * 6 / 10)
		echo(w, r)
	})
	target.Timeout = most
	by, _ := caller(t, nil)
	line := by.Lines([]Target{target})[0]
	for range callsMax {
		line.slots <- struct{}{}
	}
	time.AfterFunc(most*6/10, func() { <-line.slots })
	if _, err := line.PostDocument([]byte("a")); err != nil {
		t.Error(err)
	}
}

// TestCallsThatWaitFailWithTheOthers keeps them from finding out one by one that the
// server is away.
func TestCallsThatWaitFailWithTheOthers(t *testing.T) {
	asked, answer := make(chan struct{}, 3*callsMax), make(chan struct{})
	var calls atomic.Int32
	_, target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		asked <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	by, _ := caller(t, nil)
	line := by.Lines([]Target{target})[0]
	var all sync.WaitGroup
	post := func() {
		if _, err := line.PostDocument([]byte("a")); err == nil || !strings.Contains(err.Error(), "status 503") {
			t.Errorf("got %v", err)
		}
	}
	for range callsMax {
		all.Go(post)
		<-asked
	}
	for range 2 * callsMax {
		all.Go(post)
	}
	time.Sleep(100 * time.Millisecond) // most of them wait by now; those that do not fail at once
	close(answer)
	all.Wait()
	if calls.Load() != callsMax {
		t.Errorf("the server was called %d times, want %d", calls.Load(), callsMax)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	by, _ := caller(t, nil)
	target := Target{Name: "a", URL: server.URL, Timeout: time.Minute, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	for range 20 {
		if _, err := by.Lines([]Target{target})[0].PostDocument([]byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	if got := connections.Load(); got != 1 {
		t.Errorf("there were %d connections, want 1", got)
	}
}

func TestServicesAreCalledByTheirName(t *testing.T) {
	server, target := serve(t, echo)
	target.URL, target.Service, target.Path = "", &ServiceRef{Namespace: "shop", Name: "interpreter", Port: 8443}, "/workloads"
	by, _ := caller(t, func(_ context.Context, s ServiceRef) (string, error) {
		if s != *target.Service {
			t.Errorf("asked for %+v", s)
		}
		return server.Listener.Addr().String(), nil
	})
	// The certificate of the server is for other names.
	_, err := by.Lines([]Target{target})[0].PostDocument([]byte("a"))
	if err == nil || err.Error() != `its certificate is not for "interpreter.shop.svc"` {
		t.Errorf("got %v", err)
	}
	target.Name = "c"
	broken, _ := caller(t, func(context.Context, ServiceRef) (string, error) { return "", errors.New("no answer") })
	if _, err := broken.Lines([]Target{target})[0].PostDocument(nil); err == nil || err.Error() != "the Service cannot be read: no answer" {
		t.Errorf("got %v", err)
	}
}

func TestCallsEndWithTheProcess(t *testing.T) {
	asked := make(chan struct{})
	_, target := serve(t, func(_ http.ResponseWriter, r *http.Request) { close(asked); wait(r) })
	by, _ := caller(t, nil)
	ctx, end := context.WithCancel(t.Context())
	go func() { _ = by.Start(ctx) }()
	done := make(chan error)
	go func() { _, err := by.Lines([]Target{target})[0].PostDocument([]byte("a")); done <- err }()
	<-asked
	end()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "this process ends") {
		t.Errorf("got %v", err)
	}
}
