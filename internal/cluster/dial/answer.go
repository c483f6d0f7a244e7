// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/untrusted/decoding"
	"github.com/capstan-io/capstan/internal/untrusted/quantity"
)

// limiter lets clients take what a healthy cluster answers, and no more. It is safe
// for concurrent use.
type limiter struct {
	// send sends a request without limits.
	send   func(*http.Request) (*http.Response, error)
	budget budget
	meter  *decodeMeter
	// timeMax is how long a request of a kind may take.
	timeMax func(requestKind) time.Duration
	// refused is told of an answer that no API server gives.
	refused func(*LimitError)
}

func newLimiter(send func(*http.Request) (*http.Response, error), refused func(*LimitError)) *limiter {
	return &limiter{send: send, refused: refused, timeMax: requestKind.timeMax, budget: budget{clock: clock.RealClock{}}, meter: newMeter(clock.RealClock{})}
}

// followRequest says that a client follows what it asks for, if that is a collection, until
// the function is called that it returns.
func (l *limiter) followRequest(request *http.Request) (end func()) {
	if kind := requestKindOf(request); kind != kindList && kind != kindWatch {
		return func() {}
	}
	return l.budget.followCollection(collectionOf(request))
}

// sendLimited sends a request of a client within its limits. It calls end when the
// answer is closed.
func (l *limiter) sendLimited(request *http.Request, end func()) (*http.Response, error) {
	kind := requestKindOf(request)
	if err := l.meter.admitRequest(request, kind); err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // nothing was read of it
		}
		return nil, err
	}
	collection := collectionOf(request)
	anew := beginsAnew(request, kind)
	switch {
	case anew:
		l.budget.beginList(collection)
	case kind == kindWatch && l.budget.needsList(collection):
		end()
		return expiredResponse(request), nil
	case goesOn(request, kind):
		l.budget.completeList(collection)
	}
	limit := l.timeMax(kind)
	ctx, cancel := context.WithTimeoutCause(request.Context(), limit, newLimitError(request, "%s", limit))
	limited := request.Clone(ctx)
	if kind != kindWatch && limited.Header.Get("Accept-Encoding") == "" {
		limited.Header.Set("Accept-Encoding", "gzip")
	}
	limited.Header.Set("Accept", acceptJSONOnly(limited.Header.Get("Accept")))
	response, err := l.send(limited)
	if err != nil {
		err = timeLimitError(ctx, err)
		cancel()
		return nil, err
	}
	a := &limitedAnswer{
		request: limited, kind: kind, collection: collection, listing: anew, reduced: isReduced(request.Context()), budget: &l.budget, meter: l.meter,
		from: response.Body, cancel: cancel, end: end, refused: l.refused,
	}
	err = a.takeHeader(ctx, response)
	if err == nil {
		err = a.wrapBody(response)
	}
	if err != nil {
		_ = a.Close()
		return nil, err
	}
	return response, nil
}

// aroundItems are the braces and brackets around each item of a list.
const aroundItems = len("{[")

// timeLimitError says which limit of time made a request fail, if one did.
func timeLimitError(ctx context.Context, err error) error {
	var limit *LimitError
	if !errors.Is(err, io.EOF) && errors.As(context.Cause(ctx), &limit) {
		return limit
	}
	return err
}

// limitedAnswer is the body of a response within the limits of its request.
type limitedAnswer struct {
	request    *http.Request
	kind       requestKind
	collection string
	budget     *budget
	meter      *decodeMeter
	from       io.ReadCloser
	cancel     context.CancelFunc
	end        func() // of following the collection
	// listing says that what comes is of a list; of a watch that begins with one, until
	// that is complete.
	listing bool
	// reduced says that the client keeps little of each object.
	reduced bool
	// bytesMax is how many bytes it may have, 0 if only each event has a limit.
	bytesMax int64
	// refused is told of an answer that no API server gives.
	refused func(*LimitError)

	// received counts what came, inflated what is left of it without compression, and spent
	// what was paid for: the bigger of them, or of what its elements and events count.
	received, inflated, spent int64
	// told is how many events ended.
	told int64
	// weight is what counts of it, and share what clients hold until it is closed.
	weight int64
	share  answerShare
	reader io.Reader     // nil before the first byte if it is compressed
	frames *frameScanner // events of a watch, items of a list
	scale  eventScale
	// quantities are looked at before a client parses them, whatever was asked for: it
	// makes of an answer what that says that it is.
	quantities *quantity.Scanner
	complete   *textFinder // of a watch: what ends the list that it begins with
}

// takeHeader pays for the header, and leaves the response what clients read of it.
func (a *limitedAnswer) takeHeader(ctx context.Context, response *http.Response) error {
	header, bytes := neededHeader(response.Header)
	response.Header = header
	response.Trailer = nil
	if err := a.meter.spendBytes(ctx, bytes); err != nil {
		return timeLimitError(ctx, err)
	}
	return nil
}

// wrapBody makes the answer the body of the response.
func (a *limitedAnswer) wrapBody(response *http.Response) error {
	if response.Header.Get("Content-Type") == "" { // a client would read it as what it sends
		response.Header.Set("Content-Type", runtime.ContentTypeJSON)
	}
	switch {
	case isRedirect(response):
		return errRedirect
	case !isCountable(response):
		return fmt.Errorf("the response to %s %s is of type %q, which was not requested", a.request.Method, a.request.URL.Path, response.Header.Get("Content-Type"))
	}
	switch encoding := response.Header.Get("Content-Encoding"); {
	case encoding == "" || encoding == "identity":
		a.reader = receiver{a}
	case encoding == "gzip" && a.kind != kindWatch:
		response.Header.Del("Content-Encoding")
		response.Header.Del("Content-Length")
		response.ContentLength = -1
		response.Uncompressed = true
	default:
		return fmt.Errorf("the response to %s %s is encoded as %q, which was not requested", a.request.Method, a.request.URL.Path, encoding)
	}
	places, err := places()
	if err != nil {
		return err
	}
	a.bytesMax = a.kind.bytesMax()
	if a.kind != kindObject && response.StatusCode != http.StatusOK { // it says why, and clients may keep that
		a.bytesMax = failureBytesMax
		a.reduced = false
	}
	a.frames, a.quantities = &frameScanner{}, quantity.NewScanner(places)
	switch {
	case a.kind == kindList:
		a.frames.around = aroundItems
	case a.kind == kindWatch && response.StatusCode == http.StatusOK:
		a.complete = &textFinder{text: metav1.InitialEventsAnnotationKey}
	}
	shortenWait(response.Header)
	response.Body = a
	return nil
}

// receiver reads what comes, within the limit of that.
type receiver struct{ *limitedAnswer }

// Read implements io.Reader.
func (r receiver) Read(into []byte) (int, error) {
	n, err := r.from.Read(into)
	r.received += int64(n)
	if r.bytesMax > 0 && r.received > r.bytesMax {
		return 0, r.refuseAnswer("%d bytes, compressed or not", r.bytesMax)
	}
	if ended := r.spendUpTo(r.received); ended != nil {
		return 0, ended
	}
	return n, err
}

// spendUpTo pays for so many bytes of the answer in all: gzip of which nothing comes
// takes its time, too.
func (a *limitedAnswer) spendUpTo(bytes int64) error {
	more := bytes - a.spent
	if more <= 0 {
		return nil
	}
	a.spent = bytes
	if err := a.meter.spendBytes(a.request.Context(), int(more)); err != nil {
		return timeLimitError(a.request.Context(), err)
	}
	return nil
}

// refuseAnswer returns that the answer is more than is taken, and tells the transport, unless the client
// asks for less then.
func (a *limitedAnswer) refuseAnswer(format string, limit any) error {
	err := newLimitError(a.request, format, limit)
	if !a.canHaveFewer() {
		a.refused(err)
	}
	return err
}

// canHaveFewer reports whether the client asks for fewer objects if this is too much: for a page with more
// than one. It holds the pages before.
func (a *limitedAnswer) canHaveFewer() bool {
	objects, err := strconv.Atoi(a.request.URL.Query().Get("limit"))
	return err == nil && objects > 1 && a.reduced && a.kind == kindList
}

// Read implements io.Reader.
func (a *limitedAnswer) Read(into []byte) (int, error) {
	if a.kind == kindWatch { // others were waited for before they were sent
		if err := a.meter.awaitCredit(a.request); err != nil {
			return 0, err
		}
		if a.hasToEnd() {
			return 0, io.EOF
		}
	}
	if a.reader == nil {
		unzip, err := gzip.NewReader(receiver{a})
		if err != nil {
			return 0, timeLimitError(a.request.Context(), err)
		}
		a.reader = unzip
	}
	n, err := a.reader.Read(into[:min(len(into), decoding.PieceMax)])
	a.inflated += int64(n)
	if ended := a.spendUpTo(a.inflated); ended != nil {
		return 0, ended
	}
	if limit := a.accountRead(into[:n]); limit != nil {
		return 0, limit
	}
	if err != nil {
		err = timeLimitError(a.request.Context(), err)
	}
	return n, err
}

// accountRead counts what was read, before a client makes something of it. It returns an error if that is
// too much: few bytes of elements and quantities are a lot of memory.
func (a *limitedAnswer) accountRead(data []byte) error {
	if costly := a.quantities.ScanBytes(data); costly != nil {
		return fmt.Errorf("the response to %s %s was rejected: %w", a.request.Method, a.request.URL.Path, costly)
	}
	objects, biggest := a.frames.scanFrames(data)
	switch {
	case a.quantities.Count() > elementsMin+a.inflated/bytesPerQuantity:
		return a.refuseAnswer("one quantity for each %d bytes", bytesPerQuantity)
	case a.frames.tooDense(a.inflated):
		return a.refuseAnswer("one element of a list for each %d bytes", bytesPerElement)
	case a.complete != nil && biggest > objectBytesMax:
		return a.refuseAnswer("the %d bytes that an event may have", int64(objectBytesMax))
	}
	more := a.weighMore()
	if a.complete != nil {
		a.told += int64(objects)
	}
	if ended := a.spendUpTo(max(a.weight, bytesPerEvent*a.told)); ended != nil {
		return ended
	}
	if a.complete == nil {
		return a.accountBody(objects, more)
	}
	if err := a.holdEvents(objects); err != nil {
		return err
	}
	return a.accountEvents(a.amountOf(objects, more), data)
}

// weighMore returns how much what was read adds to what counts of the answer.
func (a *limitedAnswer) weighMore() int64 {
	before := a.weight
	a.weight = max(a.inflated, bytesPerElement*(a.frames.elements+a.quantities.Count()))
	return a.weight - before
}

// accountBody counts what was read of an answer that is read as a whole.
func (a *limitedAnswer) accountBody(items int, more int64) error {
	switch {
	case !a.budget.addBuffered(&a.share, more):
		return a.refuseAnswer("the %d bytes that answers of one cluster may have at a time", int64(bufferedBytesMax))
	case a.inflated > a.bytesMax:
		return a.refuseAnswer("%d bytes", a.bytesMax)
	case a.kind == kindList:
		return a.accountList(a.amountOf(items, more))
	}
	return nil
}

// amountOf returns what a client may keep of objects that ended in what was read.
func (a *limitedAnswer) amountOf(objects int, weight int64) amount {
	if a.reduced {
		weight = (weight + reducedTo - 1) / reducedTo
	}
	return amount{objects: objects, bytes: weight}
}

func (a *limitedAnswer) accountList(more amount) error {
	exceeded := a.budget.addListed(a.collection, more)
	if exceeded == "" {
		return nil
	}
	if !a.canHaveFewer() {
		a.budget.dropListed(a.collection)
	}
	return a.refuseAnswer("%s", exceeded)
}

// holdEvents counts what a client holds of the events of a watch, some of which ended in what was read.
func (a *limitedAnswer) holdEvents(ended int) error {
	more := a.scale.weighEvents(a.inflated, a.frames.elements+a.quantities.Count(), ended)
	all := a.budget.addEvents(&a.share, heldPerByte*more)
	if more > 0 && all > eventBytesMax && a.scale.heaviest > lightEventMax { // a cluster of large objects may do that, too
		return newLimitError(a.request, "the %d bytes that clients hold of the events of one cluster", int64(eventBytesMax))
	}
	return nil
}

// hasToEnd reports whether a watch ends here, so that a client no longer holds what it read of it. It has told
// of something, as clients take a watch that did not for a mistake, and list anew.
func (a *limitedAnswer) hasToEnd() bool {
	if a.complete == nil || a.listing || a.frames.depth > 0 {
		return false
	}
	a.scale.startEvents()
	return a.scale.ended > 0 && a.scale.heaviest > lightEventMax && a.budget.addEvents(&a.share, 0) > eventBytesKept
}

// accountEvents counts the events of a watch. All that is there, if it begins with
// that, is a list.
func (a *limitedAnswer) accountEvents(more amount, data []byte) error {
	if a.listing {
		a.listing = !a.complete.foundIn(data)
		return a.accountList(more)
	}
	if !a.budget.addWatched(a.collection, more) { // a busy cluster does that, too
		return newLimitError(a.request, "%s", "what may change before the objects are listed again")
	}
	return nil
}

// Close implements io.Closer.
func (a *limitedAnswer) Close() error {
	err := a.from.Close()
	a.cancel()
	a.end()
	a.budget.closeAnswer(&a.share)
	return err
}
