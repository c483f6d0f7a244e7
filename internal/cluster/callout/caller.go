// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package callout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// callsMax limits how many calls to one server are in progress. Others wait for one
	// of those to end, as long as a call may take.
	callsMax = 4
	// answerMax limits the bytes of an answer: an object of the largest size that an
	// API server takes, in base64, and what is around it.
	answerMax = 4 << 20
	// shortest and longest are how long a server that fails is left alone.
	shortest, longest = time.Second, time.Minute
	// usual is when to call again if a server that works has no answer.
	usual = time.Minute
	// soon is when to call again if others find out just now whether a server is
	// back, or keep it busy.
	soon = 5 * time.Second
)

// CallerOptions are what a Caller works with.
type CallerOptions struct {
	Clock clock.PassiveClock
	// Resolve finds Services. Nil is that Services cannot be called.
	Resolve ResolveFunc
	// Guard says which addresses may be dialled. Nil lets all be.
	Guard *dial.AddressGuard
}

// Caller calls servers. It is safe for concurrent use.
type Caller struct {
	CallerOptions

	// ctx ends all calls when it ends: that of the process, as who calls has none.
	ctx context.Context
	end context.CancelFunc

	mu    sync.Mutex
	lines map[string]*ServerLine
}

// NewCaller returns a caller.
func NewCaller(o CallerOptions) *Caller {
	ctx, end := context.WithCancel(context.Background())
	return &Caller{CallerOptions: o, ctx: ctx, end: end, lines: map[string]*ServerLine{}}
}

// Start ends all calls when ctx ends. It implements manager.Runnable.
func (c *Caller) Start(ctx context.Context) error {
	<-ctx.Done()
	c.end()
	return nil
}

// Lines returns the lines to all servers that are called, in the order of the
// targets. One to a target that is as before is the same, and those to others are
// closed.
func (c *Caller) Lines(targets []Target) []*ServerLine {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.lines
	lines := make([]*ServerLine, 0, len(targets))
	c.lines = map[string]*ServerLine{}
	for _, target := range targets {
		line := before[target.Name]
		if line == nil || !line.target.isSameTarget(target) {
			line = c.openLine(target)
		}
		c.lines[target.Name] = line
		lines = append(lines, line)
	}
	for name, line := range before {
		if c.lines[name] != line {
			line.client.CloseIdleConnections()
		}
	}
	return lines
}

func (c *Caller) openLine(target Target) *ServerLine {
	line := &ServerLine{caller: c, target: target, slots: make(chan struct{}, callsMax), client: &http.Client{}}
	line.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	transport, err := target.newTransport(c.CallerOptions)
	if err == nil {
		line.client.Transport = transport
		_, err = target.checkedURL()
	}
	line.unusable = err
	return line
}

// ServerLine is what leads to one server.
type ServerLine struct {
	caller *Caller
	target Target
	client *http.Client
	// unusable is why the server cannot be called at all.
	unusable error
	// slots has an entry for each call in progress.
	slots chan struct{}

	mu sync.Mutex
	// failures are how often the server failed in a row, the last time by problem.
	failures int
	problem  *callRefusalError
	// until is how long it is left alone, and trying says that a call finds out
	// whether it is back.
	until  time.Time
	trying bool
}

// Target is whom it leads to.
func (l *ServerLine) Target() Target { return l.target }

// PostDocument sends a document and returns the answer. An error is an *Error.
func (l *ServerLine) PostDocument(document []byte) ([]byte, error) {
	if l.unusable != nil {
		return nil, &Error{Problem: l.unusable.Error(), Remedy: "Correct clientConfig: it needs a url that can be called from where the objects are.", again: longest}
	}
	tries, wait := l.checkAvailable()
	if wait != nil {
		return nil, wait
	}
	if !l.acquireCallSlot() {
		if tries {
			l.releaseTry()
		}
		return nil, &Error{
			Problem: fmt.Sprintf("%d calls to it are in progress already", callsMax), Remedy: "Make it faster.", again: soon,
		}
	}
	defer func() { <-l.slots }()
	if !tries { // it may have failed while the call waited
		if _, wait = l.checkAvailable(); wait != nil {
			return nil, wait
		}
	}
	ctx, cancel := context.WithTimeout(l.caller.ctx, l.target.Timeout)
	defer cancel()
	answer, err := l.sendDocument(ctx, document)
	return answer, l.recordOutcome(err)
}

// checkAvailable tells who calls a server that is left alone why, and when to call again. Tries
// is that the call finds out whether the server is back.
func (l *ServerLine) checkAvailable() (tries bool, wait *Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures == 0 {
		return false, nil
	}
	left := l.until.Sub(l.caller.Clock.Now())
	if left <= 0 && !l.trying {
		l.trying = true
		return true, nil
	}
	return false, &Error{Problem: l.problem.problem, Remedy: l.problem.remedy, again: max(left, soon)}
}

// releaseTry takes back that a call finds out whether the server is back.
func (l *ServerLine) releaseTry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trying = false
}

// acquireCallSlot waits for a place among the calls in progress.
func (l *ServerLine) acquireCallSlot() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	ctx, cancel := context.WithTimeout(l.caller.ctx, l.target.Timeout)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// sendDocument sends a document and reads the answer.
func (l *ServerLine) sendDocument(ctx context.Context, document []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.target.callURL(), bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := l.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode != http.StatusOK {
		return nil, statusRefusal(response.StatusCode)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerMax+1))
	switch {
	case ctx.Err() != nil: // the end of a body that the timeout cuts off may look like its own
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case len(answer) > answerMax:
		return nil, &callRefusalError{problem: fmt.Sprintf("its answer is larger than %d bytes", answerMax), remedy: "Let it answer with less.", here: true}
	}
	return answer, nil
}

// statusRefusal says what is wrong with an answer that has another status than 200.
func statusRefusal(code int) error {
	remedy := "Check the path in clientConfig, and what the webhook logs."
	if code >= http.StatusMultipleChoices && code < http.StatusBadRequest {
		remedy = "Redirects are not followed: set clientConfig to where the webhook is."
	}
	away := code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout || code == http.StatusTooManyRequests
	return &callRefusalError{problem: fmt.Sprintf("it answers with status %d, want 200", code), remedy: remedy, here: !away}
}

// recordOutcome remembers how a call ended, and returns what to tell of it.
func (l *ServerLine) recordOutcome(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trying = false
	if err == nil {
		l.failures = 0
		l.problem = nil
		return nil
	}
	problem := explainFailure(err, l.target)
	if problem.here {
		l.failures = 0
		l.problem = nil
		return &Error{Problem: problem.problem, Remedy: problem.remedy, again: usual}
	}
	if errors.Is(l.caller.ctx.Err(), context.Canceled) {
		return &Error{Problem: problem.problem, Remedy: problem.remedy, again: soon}
	}
	now := l.caller.Clock.Now()
	if l.failures == 0 || !now.Before(l.until) { // those that began together fail together, and count once
		l.failures++
		l.until = now.Add(backoff.DelayAfter(l.failures, backoff.ExponentialBetween(shortest, longest)))
	}
	l.problem = problem
	return &Error{Problem: problem.problem, Remedy: problem.remedy, again: max(l.until.Sub(now), soon)}
}
