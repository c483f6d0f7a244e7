// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/untrusted/decoding"
	"github.com/capstan-io/capstan/internal/untrusted/room"
	"github.com/capstan-io/capstan/internal/webhook/sender"
)

const (
	// smallMax is how many bytes a request has at most that needs no room among the large
	// ones. Most have: whoever sends large ones keeps none of these from being answered.
	smallMax = 64 << 10
	// smallMin is what the shortest request counts for.
	smallMin = 2 << 10
	// smallInWorkMax is how many bytes the requests have together that are in work at a time
	// and are small, or of which no more has come yet; smallShareMax is how many of these
	// the requests of one address have.
	smallInWorkMax = 8 << 20
	smallShareMax  = 6 << 20
	// inWorkMax is how many bytes the large requests have together that are in work at a
	// time. Read, each takes many times that. Whoever may write one of the kinds, or only try
	// to, can send many at once, of two objects of 3 MB each.
	inWorkMax = 24 << 20
	// shareMax is how many bytes of these the requests of one address have: whoever reaches
	// the port can send some, and nothing tells who is an API server. That may be one
	// address for all users of the hub.
	shareMax = 16 << 20
	// requestMax is what the longest request has: webhooks read no more of one.
	requestMax = 7 << 20
	// decodedFreeMax is what a request takes at most that needs no room to be decoded, as
	// most do: whoever sends others keeps none of these from being answered.
	decodedFreeMax = 256 << 10
	// decodedMax is how many bytes the others have together once they are decoded, and
	// decodedShareMax is how many of these those of one address have. It is more than what
	// etcd takes of the old and the new object has, however many values that is.
	decodedMax      = 768 << 20
	decodedShareMax = 576 << 20
	// payerMax is how many requests of one payer are in work at a time: however long each of his takes, as much is
	// compiled or asked about for it, there are places for those of others.
	payerMax = 16
	// turnMax is how long a request waits for its turn. The API server gives up after 10 s,
	// and would not tell its user why.
	turnMax = 5 * time.Second
	// arrivalMax is within what a request has to be here as a whole once it is its turn. API
	// servers send it at once.
	arrivalMax = 3 * time.Second
)

// requestLoad lets requests wait while as many are in work as the process has memory for.
type requestLoad struct {
	// small has what each request may send until more than smallMax bytes of it have come,
	// and large has that of the others, from then on.
	small, large *room.Room
	// payers has the requests of each payer that are in work, however many others have.
	payers *room.Room
	// decoded has what a request takes once it is decoded, which is known when it has come.
	decoded *room.Room
	// turn is how long one waits, and arrival how long it takes then at most to arrive.
	turn, arrival time.Duration
}

func newRequestLoad(clock clock.PassiveClock) *requestLoad {
	return &requestLoad{
		small: room.NewRoom(smallInWorkMax, smallShareMax, clock), large: room.NewRoom(inWorkMax, shareMax, clock),
		payers: room.NewRoom(math.MaxInt64, payerMax, clock), decoded: room.NewRoom(decodedMax, decodedShareMax, clock),
		turn: turnMax, arrival: arrivalMax,
	}
}

// jsonOnly returns the handler of requests that begin as JSON objects do, as those of API
// servers: others would be read as YAML, of which few bytes can stand for gigabytes.
func jsonOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bufio.NewReader(r.Body)
		if begin, err := body.Peek(1); err == nil && begin[0] != '{' {
			http.Error(w, "the body is not a JSON object", http.StatusUnsupportedMediaType)
			return
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{body, r.Body}
		handler.ServeHTTP(w, r)
	})
}

// Why a request is refused.
var (
	errTurn       = errors.New("the webhook has too many requests in work: try again later")
	errIncomplete = errors.New("the request is incomplete")
	errValues     = errors.New("the request has more values than two objects that can be stored")
)

// limitHandler returns the handler of requests that are counted. One whose turn does not come is answered with 429.
func (l *requestLoad) limitHandler(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, leave, err := l.admitRequest(w, r)
		defer leave()
		switch {
		case errors.Is(err, errTurn):
			refuseTooMany(w)
			return
		case errors.Is(err, errValues):
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		case err != nil:
			http.Error(w, errIncomplete.Error(), http.StatusRequestTimeout)
			return
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{bytes.NewReader(body), r.Body}
		handler.ServeHTTP(w, sender.RequestWithSender(r))
	})
}

// admitRequest reads a request. Nothing of one is read before its turn. Once it has come, or has shown that it is large, it
// waits for a place among those of its payer, which keeps nobody else from arriving, and then has another turn;
// nothing is decoded before there is room for what that takes, if it is much. It returns how to leave.
func (l *requestLoad) admitRequest(w http.ResponseWriter, r *http.Request) (body []byte, leave func(), err error) {
	ctx, cancel := context.WithTimeout(r.Context(), l.turn)
	defer cancel()
	var turns []func()
	leave = func() {
		for _, end := range turns {
			end()
		}
	}
	enter := func(where *room.Room, who string, bytes int64) error {
		end := where.AcquireBytes(ctx, who, bytes)
		if end == nil {
			return errTurn
		}
		turns = append(turns, end)
		return nil
	}
	address := sender.AddressOf(r)
	beginning := min(max(announcedBytes(r), smallMin), smallMax)
	if err := enter(l.small, address, beginning); err != nil {
		return nil, leave, err
	}
	if body, err = l.readBodyInTime(w, r, smallMax+1); err != nil {
		return nil, leave, err
	}
	leave() // what waits for its payer is bounded by connections, 64 KiB each, and keeps nobody else from arriving
	if err := enter(l.payers, payerOf(address, body), 1); err != nil {
		return nil, leave, err
	}
	if len(body) <= smallMax {
		err = enter(l.small, address, beginning)
	} else if err = enter(l.large, address, announcedBytes(r)); err == nil {
		var rest []byte
		rest, err = l.readBodyInTime(w, r, requestMax-int64(len(body)))
		body = append(body, rest...)
	}
	if err != nil {
		return nil, leave, err
	}
	switch takes := decoding.DecodedBytes(body); {
	case takes > decodedShareMax:
		err = errValues
	case takes > decodedFreeMax:
		err = enter(l.decoded, address, takes)
	}
	return body, leave, err
}

// readBodyInTime reads what comes of a request, up to a number of bytes. It ends one that does not
// come within its time: who does not send what he has announced would keep others waiting.
// The server ends the deadline with the body: the answer may take longer.
func (l *requestLoad) readBodyInTime(w http.ResponseWriter, r *http.Request, bytesMax int64) ([]byte, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(l.arrival)) // which connections of a test lack
	return io.ReadAll(io.LimitReader(r.Body, bytesMax))                          //nolint:wrapcheck // who sent it does not read it
}

// announcedBytes is how many bytes a request may have at most. A server reads no more than a
// client has announced.
func announcedBytes(r *http.Request) int64 {
	if r.ContentLength < 0 {
		return requestMax
	}
	return min(r.ContentLength, requestMax)
}

// refuseTooMany answers so that the API server tells its user.
func refuseTooMany(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTooManyRequests)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // a connection that is gone needs no answer
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Message: errTurn.Error(),
	})
}
