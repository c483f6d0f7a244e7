// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	objectPath = "/api/v1/namespaces/default/configmaps/x"
	listPath   = "/api/v1/configmaps"
	watchPath  = "/api/v1/configmaps?watch=true&labelSelector=a"
)

// shortTime is how long requests of tests may take that take too long.
const shortTime = 500 * time.Millisecond

// takenMax is where a test stops reading: whoever takes that much has no limit.
const takenMax = 4 * listBytesMax

// endless writes without an end, until who reads has gone.
func endless(w io.Writer, piece []byte) {
	for {
		if _, err := w.Write(piece); err != nil {
			return
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
}

func gzipped(data []byte) []byte {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_, _ = zip.Write(data)
	_ = zip.Close()
	return out.Bytes()
}

func TestAMemberCannotAnswerWithoutEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads gigabytes, which takes the race detector minutes: see servers in hack/packages.sh")
	}
	piece := bytes.Repeat([]byte(" "), 64<<10)
	header := func(key, value string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.Header().Set(key, value) }
	}
	fails := func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }
	cases := map[string]struct {
		reason, path string
		header       func(http.ResponseWriter)
		answer       func(io.Writer)
		most         int64 // bytes that a client may get of it
	}{
		"an object":                       {reason: "objects have a limit", path: objectPath, answer: func(w io.Writer) { endless(w, piece) }, most: objectBytesMax},
		"a list":                          {reason: "lists have a limit", path: listPath, answer: func(w io.Writer) { endless(w, piece) }, most: listBytesMax},
		"a discovery":                     {reason: "what it serves has a limit", path: "/apis", answer: func(w io.Writer) { endless(w, piece) }, most: discoveryBytesMax},
		"another path":                    {reason: "whatever it is has a limit", path: "/openapi/v3", answer: func(w io.Writer) { endless(w, piece) }, most: discoveryBytesMax},
		"why an object cannot be written": {reason: "it may be quoted", path: objectPath, header: fails, answer: func(w io.Writer) { endless(w, piece) }, most: objectBytesMax},
		"why there is no list":            {reason: "it is short", path: listPath, header: fails, answer: func(w io.Writer) { endless(w, piece) }, most: failureBytesMax},
		"why there is no watch":           {reason: "it is short", path: watchPath, header: fails, answer: func(w io.Writer) { endless(w, piece) }, most: failureBytesMax},
		"why there is no discovery":       {reason: "it is short", path: "/apis", header: fails, answer: func(w io.Writer) { endless(w, piece) }, most: failureBytesMax},
		"gzip": {
			reason: "what becomes of it counts", path: objectPath, header: header("Content-Encoding", "gzip"), most: objectBytesMax,
			answer: func(w io.Writer) {
				zip := gzip.NewWriter(w)
				for {
					if _, err := zip.Write(piece); err != nil {
						return
					}
				}
			},
		},
		"gzip of nothing": {
			reason: "what comes counts, too", path: objectPath, header: header("Content-Encoding", "gzip"), most: 0,
			answer: func(w io.Writer) { endless(w, bytes.Repeat(gzipped(nil), 1000)) },
		},
		"an event": {
			reason: "each event has a limit", path: watchPath, most: objectBytesMax + 64<<10,
			answer: func(w io.Writer) { _, _ = w.Write([]byte("{")); endless(w, piece) },
		},
		"an event in a text": {
			reason: "braces in a text end nothing", path: watchPath, most: objectBytesMax + 64<<10,
			answer: func(w io.Writer) { _, _ = w.Write([]byte(`{"`)); endless(w, bytes.Repeat([]byte(`}\"`), 10_000)) },
		},
		"events that begin a watch": {
			reason: "they are a list", path: watchPath + "&sendInitialEvents=true", answer: func(w io.Writer) { endless(w, []byte(strings.Repeat("{}\n", 10_000))) },
			most: 3*eventsMax + 64<<10,
		},
		"big events that begin a watch": {
			reason: "they are a list", path: watchPath + "&sendInitialEvents=true",
			answer: func(w io.Writer) { endless(w, fmt.Appendf(nil, "{%q}\n", piece)) }, most: listBytesMax,
		},
		"events of a watch": {
			reason: "each may bring an object", path: watchPath, answer: func(w io.Writer) { endless(w, []byte(strings.Repeat("{}\n", 10_000))) },
			most: 3*eventsMax + 64<<10,
		},
		"big events of a watch": {
			reason: "each may bring an object, together they are a list", path: watchPath,
			answer: func(w io.Writer) { endless(w, fmt.Appendf(nil, "{%q}\n", piece)) }, most: listBytesMax,
		},
		"a list of nothing": {
			reason: "few bytes are many objects", path: listPath, most: 3*eventsMax + 64<<10,
			answer: func(w io.Writer) {
				_, _ = io.WriteString(w, `{"items":[`)
				endless(w, []byte(strings.Repeat("{},", 10_000)))
			},
		},
		"a list of nulls": {
			reason: "each is an object", path: listPath, most: 5*eventsMax + 64<<10,
			answer: func(w io.Writer) {
				_, _ = io.WriteString(w, `{"items":[`)
				endless(w, []byte(strings.Repeat("null,", 10_000)))
			},
		},
		"a list of numbers": {
			reason: "clients make an object of each before they fail", path: listPath, most: 2*eventsMax + 64<<10,
			answer: func(w io.Writer) {
				_, _ = io.WriteString(w, `{"items":[`)
				endless(w, []byte(strings.Repeat("0,", 10_000)))
			},
		},
		"an object with texts in the place of structs": {
			reason: "clients make a struct of each before they fail", path: objectPath, most: 3*eventsMax + 64<<10,
			answer: func(w io.Writer) {
				_, _ = io.WriteString(w, `{"metadata":{"managedFields":[`)
				endless(w, []byte(strings.Repeat(`"",`, 10_000)))
			},
		},
		"an item of a list with elements of nothing": {
			reason: "each is a struct", path: listPath, most: 4*eventsMax + 64<<10,
			answer: func(w io.Writer) {
				_, _ = io.WriteString(w, `{"items":[{"spec":{"containers":[`)
				endless(w, []byte(strings.Repeat("{},", 10_000)))
			},
		},
		"an object with elements of nothing": {
			reason: "each is a struct", path: objectPath, most: 4*eventsMax + 64<<10,
			answer: func(w io.Writer) {
				_, _ = io.WriteString(w, `{"metadata":{"managedFields":[`)
				endless(w, []byte(strings.Repeat("{},", 10_000)))
			},
		},
		"an event with elements of nothing": {
			reason: "each is a struct", path: watchPath, most: 6*eventsMax + 64<<10,
			answer: func(w io.Writer) {
				_, _ = io.WriteString(w, `{"object":{"metadata":{"ownerReferences":[`)
				endless(w, []byte(strings.Repeat("null,", 10_000)))
			},
		},
		"a list of nodes with resources without number": {
			reason: "a quantity takes twenty times the bytes of its JSON", path: listPath, most: 13*eventsMax + 64<<10,
			answer: func(w io.Writer) {
				_, _ = io.WriteString(w, `{"items":[{"status":{"capacity":{`)
				endless(w, []byte(strings.Repeat(`"a":0,"b":"1",`, 10_000)))
			},
		},
		"an event with resources without number": {
			reason: "a quantity takes twenty times the bytes of its JSON", path: watchPath, most: 13*eventsMax + 64<<10,
			answer: func(w io.Writer) {
				_, _ = io.WriteString(w, `{"object":{"status":{"capacity":{`)
				endless(w, []byte(strings.Repeat(`"a":0,"b":"1",`, 10_000)))
			},
		},
		"lists far inside": {
			reason: "each is one in memory", path: objectPath, most: 2*eventsMax + 64<<10,
			answer: func(w io.Writer) { endless(w, []byte(strings.Repeat("[", 10_000))) },
		},
		"a list in protobuf": {
			reason: "it was not asked for", path: listPath, header: header("Content-Type", "application/vnd.kubernetes.protobuf"),
			answer: func(w io.Writer) { endless(w, piece) },
		},
		"a watch in protobuf": {
			reason: "it was not asked for", path: watchPath, header: header("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch"),
			answer: func(w io.Writer) { endless(w, piece) },
		},
		"YAML": {
			reason: "clients read it, and it has no commas", path: listPath, header: header("Content-Type", "application/yaml"),
			answer: func(w io.Writer) { endless(w, []byte("items:\n-\n-\n-\n")) },
		},
		"a watch that is compressed": {
			reason: "it was not asked for", path: watchPath, header: header("Content-Encoding", "gzip"), answer: func(w io.Writer) { endless(w, gzipped(piece)) },
		},
	}
	for name, c := range cases {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %t", name, http2), func(t *testing.T) {
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if c.header != nil {
						c.header(w)
					}
					c.answer(w)
				}))
				server.EnableHTTP2 = http2
				server.StartTLS()
				t.Cleanup(server.Close)
				transport := transportTo(t, Endpoint{URL: server.URL, Insecure: true}, toLocal())
				taken, err := take(t, transport, server.URL+c.path)
				if err == nil || taken > c.most {
					t.Errorf("%s: took %d bytes with error %v, want at most %d and an error", c.reason, taken, err, c.most)
				}
				if b := &transport.limits.budget; b.buffered+b.events != 0 {
					t.Errorf("%d bytes count as being read although nobody does", b.buffered+b.events)
				}
			})
		}
	}
}

// take reads an answer as clients do.
func take(t *testing.T, transport *Transport, url string) (taken int64, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	expect.NoError(t, err)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	return io.Copy(io.Discard, io.LimitReader(response.Body, takenMax))
}

func TestAnAnswerThatStallsAfterItsHeaderEnds(t *testing.T) {
	for name, part := range map[string]string{"nothing": "", "a part": `{"kind":`} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			server, ca := member(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(part))
				w.(http.Flusher).Flush()
				<-release
			})
			t.Cleanup(func() { close(release) })
			transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
			transport.limits.timeMax = func(requestKind) time.Duration { return shortTime }
			_, err := take(t, transport, server.URL+objectPath)
			var limit *LimitError
			if !errors.As(err, &limit) || limit.Limit != shortTime.String() || limit.Request != "GET "+objectPath {
				t.Errorf("got error %v, want one that names request and limit", err)
			}
		})
	}
}

func TestAllPagesOfAListCountAndWhatIsListedAnewDoesNot(t *testing.T) {
	page := bytes.Repeat([]byte(" "), listBytesMax/2)
	server, ca := member(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	for i, c := range []struct {
		query string
		fits  bool
	}{{"?limit=500", true}, {"?limit=500&continue=a", true}, {"?limit=500&continue=b", false}, {"?limit=500", true}} {
		if _, err := take(t, transport, server.URL+listPath+c.query); (err == nil) != c.fits {
			t.Errorf("page %d: got error %v, want fits=%t", i, err, c.fits)
		}
	}
}

func TestAWatchThatToldALotIsSentToListAnew(t *testing.T) {
	server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			_, _ = io.WriteString(w, strings.Repeat("{}\n", eventsMax))
		}
	})
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	if _, err := take(t, transport, server.URL+watchPath); err == nil {
		t.Error("a watch went on after it told too much")
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+watchPath, nil)
	response, err := transport.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusGone {
		t.Fatalf("the next watch: got %v and error %v, want 410", response, err)
	}
	_ = response.Body.Close()
	if _, err := take(t, transport, server.URL+listPath+"?labelSelector=a"); err != nil {
		t.Error(err)
	}
	if response, err = transport.RoundTrip(request); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("a watch after a list: got %v and error %v", response, err)
	}
	_ = response.Body.Close()
}

// TestWarningsAreNotLogged has a member send as many warnings as a header has room for.
func TestWarningsAreNotLogged(t *testing.T) {
	server, ca := member(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 1_000 {
			w.Header().Add("warning", `299 - "a"`)
		}
		_, _ = io.WriteString(w, "{}")
	})
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	for _, path := range []string{objectPath, listPath, watchPath, "/apis"} {
		response, err := transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil))
		if err != nil {
			t.Fatal(err)
		}
		if warnings := len(response.Header.Values("Warning")); warnings > 0 {
			t.Errorf("%s: a client logs %d warnings", path, warnings)
		}
		_ = response.Body.Close()
	}
}

func TestACompressedAnswerIsOpened(t *testing.T) {
	text := strings.Repeat("what an API server has to say ", 10_000)
	server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("the member was asked for %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(gzipped([]byte(text)))
	})
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	response, err := transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+listPath, nil))
	expect.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != text || response.Header.Get("Content-Encoding") != "" {
		t.Errorf("got %d bytes, header %v and error %v, want %d", len(body), response.Header, err, len(text))
	}
}

// TestWhatDoesNotSayWhatItIsIsReadAsJSON has clients that send protobuf read no protobuf.
func TestWhatDoesNotSayWhatItIsIsReadAsJSON(t *testing.T) {
	server, ca := member(t, func(w http.ResponseWriter, r *http.Request) {
		if accepted := r.Header.Get("Accept"); accepted != "application/json;as=PartialObjectMetadata,application/json" {
			t.Errorf("the member may answer in %q", accepted)
		}
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "{}")
	})
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	for _, path := range []string{objectPath, listPath, watchPath} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		request.Header.Set("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata,application/cbor,application/json;as=PartialObjectMetadata,application/json")
		response, err := transport.RoundTrip(request)
		expect.NoError(t, err)
		if is := response.Header.Get("Content-Type"); is != "application/json" {
			t.Errorf("%s: a client reads it as %q", path, is)
		}
		_ = response.Body.Close()
	}
}

func TestEachRequestHasAKind(t *testing.T) {
	cases := map[string]struct {
		method, path string
		want         requestKind
	}{
		"a namespaced object":      {http.MethodGet, "/api/v1/namespaces/a/configmaps/b", kindObject},
		"a namespace":              {http.MethodGet, "/api/v1/namespaces/kube-system", kindObject},
		"namespaces":               {http.MethodGet, "/api/v1/namespaces", kindList},
		"a list in a namespace":    {http.MethodGet, "/apis/apps/v1/namespaces/a/deployments?limit=500", kindList},
		"a list of a cluster":      {http.MethodGet, "/apis/work.open-cluster-management.io/v1/appliedmanifestworks", kindList},
		"behind a path":            {http.MethodGet, "/clusters/one/api/v1/nodes", kindList},
		"a subresource":            {http.MethodGet, "/apis/apps/v1/namespaces/a/deployments/b/scale", kindObject},
		"a watch":                  {http.MethodGet, "/api/v1/nodes?watch=1", kindWatch},
		"no watch":                 {http.MethodGet, "/api/v1/nodes?watch=false", kindList},
		"groups":                   {http.MethodGet, "/apis", kindDiscovery},
		"a group and version":      {http.MethodGet, "/apis/apps/v1", kindDiscovery},
		"the core version":         {http.MethodGet, "/api/v1", kindDiscovery},
		"something else":           {http.MethodGet, "/openapi/v3", kindDiscovery},
		"a write":                  {http.MethodPatch, "/api/v1/namespaces/a/configmaps/b", kindObject},
		"a write to a collection":  {http.MethodPost, "/api/v1/namespaces", kindObject},
		"a write that looks alike": {http.MethodPost, "/api/v1/nodes?watch=true", kindObject},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), c.method, "https://member"+c.path, nil)
			if got := requestKindOf(request); got != c.want {
				t.Errorf("%s %s is of kind %d, want %d", c.method, c.path, got, c.want)
			}
		})
	}
}

// TestElementsAreThoseOfLists counts what clients make a struct of, and not what is in texts
// and in objects, such as the fields of a manager. A list without any counts as one.
func TestElementsAreThoseOfLists(t *testing.T) {
	for text, want := range map[string]int64{
		`{"a":{"b":null,"c":{}},"d":"[null,{}"}`: 0,
		`[1,"n",true,false]`:                     4,
		`[{},[],null]`:                           4,
		`{"a":[{"b":{"c":null}},{"d":[null]}]}`:  3,
		strings.Repeat(`{"a":`, 100):             36, // it does not matter where they are beyond 64
	} {
		f := &frameScanner{}
		if f.scanFrames([]byte(text)); f.elements != want {
			t.Errorf("%s has %d elements, want %d", text, f.elements, want)
		}
	}
}

// TestItemsAreThoseOfTheList counts the objects that a list brings.
func TestItemsAreThoseOfTheList(t *testing.T) {
	for text, want := range map[string]int{
		`{"metadata":{"a":{},"b":"c"},"items":[{"a":[1,2]},{"b":{}}]}`: 2,
		`{"items":[{},null,0,"a,b",true,[[],{}]]}`:                     6,
		`{"items":null}`: 0,
	} {
		f := &frameScanner{around: aroundItems}
		if items, _ := f.scanFrames([]byte(text)); items != want {
			t.Errorf("%s has %d items, want %d", text, items, want)
		}
	}
}

func TestEventsAreFoundHoweverTheyAreCut(t *testing.T) {
	texts := []string{`{"type":"ADDED","object":{"a":["}{",{"b":"\\\"]"}]}}`, "{}", `{"x":"\\"}`, `{"y":[[],[{}]]}`}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		f, stream := &frameScanner{}, strings.Join(texts, "\n")
		found, biggest := 0, int64(0)
		for len(stream) > 0 {
			n := 1 + random.IntN(len(stream))
			events, size := f.scanFrames([]byte(stream[:n]))
			found, biggest, stream = found+events, max(biggest, size), stream[n:]
		}
		if diff := cmp.Diff([]int{len(texts), len(texts[0])}, []int{found, int(biggest)}); diff != "" {
			t.Fatalf("events and size of the biggest (-want +got):\n%s", diff)
		}
	}
}

func TestLimitAnswers(t *testing.T) {
	server, ca := member(t, func(w http.ResponseWriter, _ *http.Request) { endless(w, bytes.Repeat([]byte(" "), 64<<10)) })
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	LimitAnswers(config)
	client, err := rest.HTTPClientFor(config)
	expect.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+objectPath, nil)
	expect.NoError(t, err)
	response, err := client.Do(request)
	expect.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // nothing can be done about it
	taken, err := io.Copy(io.Discard, io.LimitReader(response.Body, takenMax))
	var limit *LimitError
	if !errors.As(err, &limit) || taken > objectBytesMax {
		t.Errorf("took %d bytes with error %v, want at most %d and an error that names the limit", taken, err, objectBytesMax)
	}
}

// TestLimitAnswersBoundsHandshakes has a server show so many certificates that a client decodes megabytes of them.
func TestLimitAnswersBoundsHandshakes(t *testing.T) {
	answers := func(http.ResponseWriter, *http.Request) {}
	ordinary, ca := showing(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, answers)
	own := ordinary.TLS.Certificates[0]
	for count, why := range map[int]string{8: "", 400: "before TLS is agreed on"} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(answers))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: slices.Repeat(own.Certificate, count), PrivateKey: own.PrivateKey}}}
		server.StartTLS()
		t.Cleanup(server.Close)
		config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
		LimitAnswers(config)
		client, err := rest.HTTPClientFor(config)
		expect.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+objectPath, nil)
		expect.NoError(t, err)
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%d certificates: %v, want %q", count, err, why)
		}
	}
}

func TestPagesThatAreDroppedCountAlone(t *testing.T) {
	page := bytes.Repeat([]byte(" "), listBytesMax/2)
	server, ca := member(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	transport := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal())
	for _, query := range []string{"?limit=500", "?limit=500&continue=a", "?limit=500&continue=b", "?limit=500&continue=c"} {
		request, err := http.NewRequestWithContext(PagedContext(t.Context()), http.MethodGet, server.URL+listPath+query, nil)
		expect.NoError(t, err)
		response, err := transport.RoundTrip(request)
		expect.NoError(t, err)
		if taken, err := io.Copy(io.Discard, response.Body); err != nil || taken != int64(len(page)) {
			t.Errorf("%s: took %d bytes with error %v", query, taken, err)
		}
		_ = response.Body.Close()
	}
}
