// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/internal/untrusted/handshake"
)

// What is taken of an answer. Clients hold answers whole, and what they decode of
// them takes several times the bytes, so these are what one member can cost.
const (
	// objectBytesMax is the most that an object may have, and so each answer that is
	// one and each event of a watch. API servers store 1.5 MiB, which is more as JSON.
	objectBytesMax = 8 << 20
	// discoveryBytesMax is the most that a member may tell of what it serves.
	discoveryBytesMax = 16 << 20
	// failureBytesMax is the most that a member may say about why there is no list, watch or discovery. Why
	// an object cannot be written quotes it, and has as much as that.
	failureBytesMax = 1 << 20
	// listBytesMax is the most that a list may have, all of its pages together: some
	// 5,000 nodes or 50,000 objects of works.
	listBytesMax = 64 << 20
	// bufferedBytesMax is the most of all answers that are being read at a time.
	bufferedBytesMax = 96 << 20
	// heldPerByte is how many bytes a client holds of a watch for each of its heaviest event, until the watch
	// ends: client-go reads events into two buffers, which grow to twice what they have to hold, and stay.
	heldPerByte = 4
	// eventBytesMax is the most that clients may hold of the watches of one member. From eventBytesKept on, a watch
	// ends after an event if its heaviest was no light one: the client goes on from there with new buffers.
	eventBytesMax  = 256 << 20
	eventBytesKept = 128 << 20
	// lightEventMax is how heavy a light event may be: a thousand watches always have room for one each.
	lightEventMax = 64 << 10
	// reducedTo is how many bytes count as one where a client keeps little of each
	// object: the number of objects is their limit, unless they are unusually big.
	reducedTo = 32
	// eventsMax is how many objects a list may have, or a watch may begin with, and how
	// many events are taken after that until the collection is listed anew: each may
	// bring an object that stays. They may have as many bytes as a list.
	eventsMax = 100_000
	// allBytesMax and allObjectsMax are the most that all collections of a member may
	// have, and that may come of all of them before some are listed anew. A healthy
	// cluster has few collections that are near the limit of a list, and many that are
	// small.
	allBytesMax   = 3 * listBytesMax
	allObjectsMax = 3 * eventsMax
	// elementsMin is how many elements the lists in an answer may have in any case, and
	// bytesPerElement how many bytes it has to have for each further one: those of API
	// servers have more, and what clients make of an element is as big as its type. Each counts
	// as so many bytes, as does a quantity, if an answer has fewer for all of them: towards what
	// is read at a time, and what all pages, events and collections may have together.
	elementsMin     = eventsMax
	bytesPerElement = 64
	// bytesPerQuantity is the least that an answer may have for a quantity, of which maps may have
	// one in ten bytes: a container with all that it may request has one in seventy.
	bytesPerQuantity = 32
	// identityBytesMax is how long the kind, the name, the UID and the version of an object may
	// be: several times what they are in Kubernetes.
	identityBytesMax = 1 << 10
	// headerBytesMax is the most that the header of an answer may have, and fieldBytes what each of
	// its fields counts for beside its text, as in HTTP/2.
	headerBytesMax = 32 << 10
	fieldBytes     = 32
)

// How long a request may take until the last byte of its answer.
const (
	requestTimeMax = 45 * time.Second // answerTimeout and some for the answer itself
	listTimeMax    = 3 * time.Minute
	// watchTimeMax is longer than clients ask watches to last, which is 10 minutes.
	watchTimeMax = 15 * time.Minute
)

const (
	// followedFor is for how long a collection counts after the last answer: longer
	// than clients pause before they ask again while that fails.
	followedFor = 2 * time.Minute
	// retryAfterMax is for how long a member may ask clients to wait. They do so, while
	// they hold what they have.
	retryAfterMax = 30 * time.Second
)

// requestKind is what a request is for, which decides its limits.
type requestKind uint8

const (
	kindObject requestKind = iota // reads or writes one
	kindList
	kindWatch
	kindDiscovery
)

type reducedKey struct{}

// ReducedContext returns a context for lists and watches of which the client keeps a
// small part of each object, and drops the others' bytes as they arrive. Answers
// to such requests may have more of them. A page with several objects that is too much is
// requested again with fewer: the client alone is told of it.
func ReducedContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, reducedKey{}, true)
}

func isReduced(ctx context.Context) bool { return ctx.Value(reducedKey{}) != nil }

type pagedKey struct{}

// PagedContext returns a context for lists of which the client drops each page before it
// asks for the next: each may have as much as a list.
func PagedContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, pagedKey{}, true)
}

func isPaged(ctx context.Context) bool { return ctx.Value(pagedKey{}) != nil }

// requestKindOf returns what a request is for.
func requestKindOf(request *http.Request) requestKind {
	if request.Method != http.MethodGet {
		return kindObject
	}
	query := request.URL.Query()
	if w := query.Get("watch"); w == "true" || w == "1" {
		return kindWatch
	}
	switch resource, ok := resourcePath(request.URL.Path); {
	case !ok || len(resource) == 0:
		return kindDiscovery
	case len(resource) == 1:
		return kindList
	}
	return kindObject
}

// resourcePath returns what follows group, version and namespace in a path, such
// as the resource and a name. An API server may be behind a path of its own.
func resourcePath(path string) (resource []string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		var after int
		switch part {
		case "api": // api/VERSION
			after = i + 2
		case "apis": // apis/GROUP/VERSION
			after = i + 3
		default:
			continue
		}
		if after > len(parts) {
			return nil, true
		}
		resource = parts[after:]
		if len(resource) > 2 && resource[0] == "namespaces" {
			resource = resource[2:]
		}
		return resource, true
	}
	return nil, false
}

// acceptJSONOnly returns what a client takes, without protobuf and CBOR: elements can be counted in
// JSON only.
func acceptJSONOnly(accept string) string {
	var taken []string
	for kind := range strings.SplitSeq(accept, ",") {
		if !strings.Contains(kind, "protobuf") && !strings.Contains(kind, "cbor") {
			taken = append(taken, kind)
		}
	}
	return cmp.Or(strings.Join(taken, ","), "application/json")
}

// collectionOf names what is listed or watched.
func collectionOf(request *http.Request) string {
	query := request.URL.Query()
	return request.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector")
}

// beginsAnew reports whether the answer replaces what is held of the collection.
func beginsAnew(request *http.Request, kind requestKind) bool {
	query := request.URL.Query()
	switch kind {
	case kindList:
		return query.Get("continue") == "" || isPaged(request.Context())
	case kindWatch:
		return query.Get("sendInitialEvents") == "true"
	default:
		return false
	}
}

// goesOn reports whether the answer goes on from a list that the client has all of. A
// member cannot say so: only the client knows what it has.
func goesOn(request *http.Request, kind requestKind) bool {
	return kind == kindWatch && !beginsAnew(request, kind) && request.URL.Query().Get("resourceVersion") != ""
}

// expiredResponse answers a watch as an API server does that does not know what was
// before: the client lists anew.
func expiredResponse(request *http.Request) *http.Response {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"the collection has to be listed again"}`
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)), ContentLength: int64(len(status)),
	}
}

// errRedirect says that a cluster wanted to have something else asked: at another host,
// which would get the token, or with the limits of another request.
var errRedirect = errors.New("the API server redirects; redirects are not followed")

func isRedirect(response *http.Response) bool {
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}

// isCountable reports whether the elements of a response are counted before a client makes
// something of them: it is JSON, or a text, of which clients make nothing. They would read
// protobuf and YAML.
func isCountable(response *http.Response) bool {
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err == nil && (media == runtime.ContentTypeJSON || media == "text/plain" || media == "text/html")
}

// shortenWait keeps a member from having clients wait for longer than a while.
func shortenWait(header http.Header) {
	const key = "Retry-After"
	if seconds, err := strconv.Atoi(header.Get(key)); err == nil && seconds > int(retryAfterMax.Seconds()) {
		header.Set(key, strconv.Itoa(int(retryAfterMax.Seconds())))
	}
}

// neededHeader returns what clients read of a header, and how many bytes count of all of it. The rest would stay in
// memory for as long as the response is open, and clients log each Warning.
func neededHeader(header http.Header) (needed http.Header, bytes int) {
	needed = http.Header{}
	for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length", "Etag", "Retry-After"} {
		if value := header.Get(name); value != "" {
			needed.Set(name, value)
		}
	}
	for name, values := range header {
		for _, value := range values {
			bytes += len(name) + len(value) + fieldBytes
		}
	}
	return needed, bytes
}

// bytesMax returns the most that an answer may have; 0 is for a watch, of which
// each event has a limit.
func (k requestKind) bytesMax() int64 {
	switch k {
	case kindList:
		return listBytesMax
	case kindDiscovery:
		return discoveryBytesMax
	case kindWatch:
		return 0
	default:
		return objectBytesMax
	}
}

// timeMax returns how long a request may take.
func (k requestKind) timeMax() time.Duration {
	switch k {
	case kindList:
		return listTimeMax
	case kindWatch:
		return watchTimeMax
	default:
		return requestTimeMax
	}
}

// LimitError says that a member answers more, or more slowly, than is taken.
type LimitError struct {
	// Request is the method and path.
	Request string
	// Limit is what was exceeded.
	Limit string
	// Delayed says that nothing was rejected: it was read later.
	Delayed bool
}

// Error implements error.
func (e *LimitError) Error() string {
	if e.Delayed {
		return fmt.Sprintf("the response to %s was delayed: with those before it, it exceeds %s", e.Request, e.Limit)
	}
	return fmt.Sprintf("the response to %s was rejected: it exceeds %s", e.Request, e.Limit)
}

func newLimitError(request *http.Request, format string, limit any) *LimitError {
	return &LimitError{Request: request.Method + " " + request.URL.Path, Limit: fmt.Sprintf(format, limit)}
}

// LimitAnswers has clients take no more of an answer than a Transport does, and follow
// no redirect: what is beyond that is a LimitError. It is for servers that others chose
// than whoever runs this process, such as those who may write a Secret with a kubeconfig.
// What they send until TLS is agreed on is bounded as well. It says nothing about addresses.
func LimitAnswers(config *rest.Config) {
	if rest.IsConfigTransportTLS(*config) {
		if config.Dial == nil {
			config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext
		}
		config.Dial = handshake.NewDecodeTurns().BoundDial(config.Dial)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &limitedTransport{next: next, limits: newLimiter(next.RoundTrip, func(*LimitError) {})} // who asks is told
	})
}

// limitedTransport is a transport with limits on answers.
type limitedTransport struct {
	next   http.RoundTripper
	limits *limiter
}

// RoundTrip implements http.RoundTripper.
func (l *limitedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	end := l.limits.followRequest(request)
	response, err := l.limits.sendLimited(request, end)
	if err != nil {
		end()
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the connections, to close idle ones.
func (l *limitedTransport) WrappedRoundTripper() http.RoundTripper { return l.next }
