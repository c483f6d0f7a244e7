// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

// talker is a member that answers each request with as much as is taken, of which a megabyte is
// decoded without a wait.
type talker struct {
	*testing.T

	clock   *clocktesting.FakeClock
	client  *limitedTransport
	delayed []*LimitError
}

func newTalker(t *testing.T, clk *clocktesting.FakeClock) *talker {
	t.Helper()
	member := &talker{T: t, clock: clk}
	event := `{"type":"MODIFIED","object":"` + strings.Repeat(" ", 2<<20) + `"}`
	answer := func(request *http.Request) (*http.Response, error) {
		text := strings.Repeat(" ", objectBytesMax)
		if requestKindOf(request) == kindWatch {
			text = strings.Repeat(event, 4)
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
	limits := newLimiter(answer, func(err *LimitError) { t.Errorf("refused: %v", err) })
	limits.meter = newMeter(clk)
	limits.meter.limit = rate.NewLimiter(decodedRate, 1<<20)
	limits.meter.delayed = func(err *LimitError) { member.delayed = append(member.delayed, err) }
	member.client = &limitedTransport{limits: limits}
	return member
}

// read reads an answer whole.
func (m *talker) read(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://member"+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := m.client.RoundTrip(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// takes returns how much time has to pass until some answers were read.
func (m *talker) takes(paths ...string) time.Duration {
	m.Helper()
	start, done := m.clock.Now(), make(chan error, 1)
	go func() {
		var err error
		for _, path := range paths {
			err = errors.Join(err, m.read(m.Context(), path))
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				m.Error(err)
			}
			return m.clock.Since(start)
		case <-time.After(time.Millisecond):
			if m.clock.HasWaiters() {
				m.clock.Step(100 * time.Millisecond)
			}
		}
	}
}

// TestWhatAMemberAnswersIsSpreadOverTime has members answer with 8 MiB each time.
func TestWhatAMemberAnswersIsSpreadOverTime(t *testing.T) {
	for name, tc := range map[string]struct {
		paths []string
		owed  int // bytes that have to be paid for before the last of them are read
	}{
		"one answer":        {paths: []string{objectPath}},
		"objects":           {paths: []string{objectPath, objectPath, objectPath}, owed: 15 << 20},
		"lists":             {paths: []string{listPath, listPath, listPath}, owed: 15 << 20},
		"what is served":    {paths: []string{"/apis", "/openapi/v3", "/apis"}, owed: 15 << 20},
		"events of a watch": {paths: []string{watchPath}, owed: 6 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
			member := newTalker(t, clk)
			want := time.Duration(tc.owed) * time.Second / decodedRate
			if took := member.takes(tc.paths...); took < want || took > 2*want {
				t.Errorf("they are read within %s, want some %s", took, want)
			}
			if told := len(member.delayed) > 0; told != (tc.owed > 0) {
				t.Errorf("told of a delay: %t", told)
			}
			for _, err := range member.delayed {
				if !strings.Contains(err.Error(), "was delayed: with those before it, it exceeds the 4 MiB") {
					t.Errorf("told is %q", err)
				}
			}
			if took := newTalker(t, clk).takes(objectPath); took > 0 {
				t.Errorf("another member waits for %s", took)
			}
		})
	}
}

// TestWhatIsInflatedToNothingCounts has a member answer with gzip of which no byte is left.
func TestWhatIsInflatedToNothingCounts(t *testing.T) {
	const sent = 7 << 20
	nothing := gzipped(nil)
	answer := strings.Repeat(string(nothing), sent/len(nothing))
	member := newTalker(t, clocktesting.NewFakeClock(time.Unix(1000, 0)))
	member.client.limits.send = func(*http.Request) (*http.Response, error) {
		header := http.Header{"Content-Encoding": {"gzip"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(answer))}, nil
	}
	want := time.Duration(sent-1<<20) * time.Second / decodedRate
	if took := member.takes(objectPath, objectPath); took < want*9/10 || took > 2*want {
		t.Errorf("the second is read after %s, want some %s", took, want)
	}
}

// TestAMembersAnswersHaveTheirTurn has others send so much that a member waits for its turn, or gives up.
func TestAMembersAnswersHaveTheirTurn(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	pace := decoding.NewSharedPace(clk)
	member := newTalker(t, clk)
	member.client.limits.meter.sender = pace.AddSender()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for others := pace.AddSender(); others.AwaitTurn(ended, decoding.PieceMax) == nil; {
		continue
	}
	if err := member.read(ended, objectPath); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it waits until its request ends", err)
	}
	if took := member.takes(objectPath); took == 0 {
		t.Error("it does not wait for its turn")
	}
	if len(member.delayed) > 0 {
		t.Errorf("it is told that others answer too much: %v", member.delayed)
	}
}

// TestAClientGivesUpWaiting has requests end that wait.
func TestAClientGivesUpWaiting(t *testing.T) {
	member := newTalker(t, clocktesting.NewFakeClock(time.Unix(1000, 0)))
	if took := member.takes(objectPath); took > 0 {
		t.Fatalf("the first answer takes %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := member.read(ctx, objectPath); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	sent := &closes{Reader: bytes.NewReader([]byte("{}"))}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://member"+objectPath, sent)
	expect.NoError(t, err)
	response, err := member.client.RoundTrip(request)
	if err == nil {
		err = response.Body.Close()
	}
	if !errors.Is(err, context.Canceled) || !sent.closed {
		t.Errorf("got %v, and what was to be sent is closed: %t", err, sent.closed)
	}
}

// closes is the body of a request.
type closes struct {
	io.Reader

	closed bool
}

func (c *closes) Close() error { c.closed = true; return nil }

// TestSmallThingsCost has a member answer with what takes longer than its bytes do.
func TestSmallThingsCost(t *testing.T) {
	const many = 50_000
	for name, tc := range map[string]struct {
		path, text string
		cost       int
	}{
		"events":     {watchPath, strings.Repeat(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}`, many), many * bytesPerEvent},
		"elements":   {objectPath, `{"a":[` + strings.Repeat("{},", many) + "{}]}", many * bytesPerElement},
		"quantities": {objectPath, `{"status":{"capacity":{` + strings.Repeat(`"a":"1",`, many) + `"b":"1"}}}`, many * bytesPerElement},
		"a watch":    {watchPath, "{}", requestBytes},
		"a list":     {listPath, "{}", requestBytes},
	} {
		t.Run(name, func(t *testing.T) {
			member := newTalker(t, clocktesting.NewFakeClock(time.Unix(1000, 0)))
			limits := member.client.limits
			limits.meter.limit = rate.NewLimiter(decodedRate, decodedBurst)
			limits.send = func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(tc.text))}, nil
			}
			before := limits.meter.limit.TokensAt(member.clock.Now())
			if err := member.read(t.Context(), tc.path); err != nil {
				t.Fatal(err)
			}
			cost := int(before - limits.meter.limit.TokensAt(member.clock.Now()))
			if cost < tc.cost || cost > 2*tc.cost+64<<10 {
				t.Errorf("%d bytes are paid for, want some %d", cost, tc.cost)
			}
		})
	}
}
