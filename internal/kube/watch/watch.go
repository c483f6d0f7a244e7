// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/kube/backoff"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

const (
	// retryMin and retryMax bound the time between two attempts to list and watch
	// while that fails, and thus for how long something can be missed: soon at
	// first, and not often if a server stays away.
	retryMin = 200 * time.Millisecond
	retryMax = 15 * time.Second
	// refusedMax is what retryMax is for what a server does not have or does not
	// let us see.
	refusedMax = 30 * time.Second
	// pollMin and pollMax bound the time between two reads of an object that may
	// be read, but not watched.
	pollMin = 50 * time.Millisecond
	pollMax = 15 * time.Second
	// pollsPerWatch is the number of reads after which it is tried to watch again.
	pollsPerWatch = 20
	// pollFactor is by how much the time between two reads grows.
	pollFactor = 1.7
	// jitter is the share of a wait that is added by chance, as all watches of a
	// server fail at the same moment.
	jitter = 0.5
	// lifetimeMin is how long a watch has to live to count as a success.
	lifetimeMin = 5 * time.Second
	// messageBytesMax is how many bytes a handler is told of what a server says in an error.
	messageBytesMax = 8 << 10
)

// Handler is told what a watch finds. Its methods are called one at a time, and
// have to return soon. The objects are the Handler's to keep.
type Handler[T client.Object] interface {
	// Replace tells all objects that there are, at a resourceVersion: at first, and
	// whenever changes may have been missed. From then on they are watched, unless
	// Failed says otherwise. The resourceVersion is empty if it is not known.
	Replace(objects []T, resourceVersion string)
	// Update tells an object that is new or has changed.
	Update(object T)
	// Delete tells an object that does not exist any more, or is not selected any
	// more, as it was last.
	Delete(object T)
	// Bookmark tells up to which resourceVersion everything has been told.
	Bookmark(resourceVersion string)
	// Failed tells why what was told may not be true any more. It is tried again,
	// and what is told next is a Replace; IsRefused reports whether the failure is
	// likely to last. Of what a server says it has 8 KiB at most: it may be kept.
	Failed(err error)
}

// Watch keeps a Handler informed of objects.
type Watch[T client.Object] struct {
	Source  ObjectSource[T]
	Handler Handler[T]
	// Clock defaults to the real one.
	Clock clock.Clock
}

// IsRefused reports whether an error is a server's last word for a while: it does
// not serve the type, or does not let us list or watch it.
func IsRefused(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// RunReflector watches until ctx ends.
func (w *Watch[T]) RunReflector(ctx context.Context) {
	clk := w.Clock
	if clk == nil {
		clk = clock.RealClock{}
	}
	s := &session[T]{source: w.Source, handler: w.Handler, clock: clk, ctx: ctx}
	retry := retryBackoff()
	reflector := cache.NewReflectorWithOptions(s.listWatch(), w.Source.example, s, cache.ReflectorOptions{
		Name: w.Source.what, Clock: clk, Backoff: &retry,
	})
	failing := retryBackoff()
	refused := refusalBackoff()
	polling := pollBackoff()
	for {
		s.resetAttempt()
		if s.mayWatch() {
			// What goes wrong it tells the session before it returns.
			_ = reflector.ListAndWatchWithContext(ctx)
		}
		if ctx.Err() != nil {
			return // a list may still be under way
		}
		if s.watchSucceeded() {
			failing, refused, polling = retryBackoff(), refusalBackoff(), pollBackoff()
		}
		switch {
		case s.polls:
			s.pollObject(&polling)
		case s.refused:
			backoff.SleepContext(ctx, clk, refused.Step())
		default:
			backoff.SleepContext(ctx, clk, failing.Step())
		}
	}
}

func retryBackoff() wait.Backoff {
	b := backoff.ExponentialBetween(retryMin, retryMax)
	b.Jitter = jitter
	return b
}

func refusalBackoff() wait.Backoff { return backoff.ExponentialBetween(retryMin, refusedMax) }

func pollBackoff() wait.Backoff {
	b := backoff.ExponentialBetween(pollMin, pollMax)
	b.Factor = pollFactor
	return b
}

// session is the state of a Watch that runs. It is what the reflector writes to.
type session[T client.Object] struct {
	source  ObjectSource[T]
	handler Handler[T]
	clock   clock.Clock
	ctx     context.Context // that of RunReflector; the reflector lists without one

	// seeded says that the reflector has been given what the owner knows.
	seeded bool
	// opened is when the last watch began; zero if none did in this attempt.
	opened time.Time
	// refused says that the server refused in this attempt, and polls that the one
	// object that there can be is read instead.
	refused, polls bool
	// refusedWatch says that the last attempt ended because the server let us list,
	// but not watch.
	refusedWatch bool
	// listed is what was listed and is told when it is watched, or cannot be.
	listed *listing[T]
}

// listing is all that there was at a resourceVersion.
type listing[T client.Object] struct {
	objects         []T
	resourceVersion string
}

// resetAttempt begins an attempt.
func (s *session[T]) resetAttempt() {
	s.opened = time.Time{}
	s.refused = false
	s.polls = false
	s.listed = nil
}

// watchSucceeded reports whether the last watch counts as a success.
func (s *session[T]) watchSucceeded() bool {
	return !s.opened.IsZero() && s.clock.Since(s.opened) >= lifetimeMin
}

// mayWatch reports whether to list and watch. After the server refused the watch
// it asks for that alone first: many objects are not to be listed for nothing.
func (s *session[T]) mayWatch() bool {
	if !s.refusedWatch || s.source.get != nil {
		return true
	}
	events, err := s.source.watch(s.ctx, metav1.ListOptions{})
	s.refusedWatch = err != nil && IsRefused(err)
	switch {
	case err == nil:
		events.Stop()
	case s.refusedWatch:
		_ = s.reportFailure("watching", err) // the handler has been told
		return false
	}
	return true
}

// reportFailure tells the handler of an error, unless it is that of ctx, and returns
// it with what was tried. What is tried with a single object is not of interest
// to its owner, who wants to know it.
func (s *session[T]) reportFailure(doing string, err error) error {
	err = shortenError(err)
	if s.source.get == nil {
		err = fmt.Errorf("%s %s: %w", doing, s.source.what, err)
	}
	if s.ctx.Err() != nil {
		return err
	}
	s.refused = IsRefused(err)
	s.polls = s.source.get != nil && apierrors.IsForbidden(err)
	if !s.polls {
		s.handler.Failed(err)
	}
	return err
}

// shortenError returns an error that may be kept, whatever a server says: of its answer the code, the reason and the
// beginning of the message, and of any other error nothing but the text. It says the same.
func shortenError(err error) error {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		said := answer.Status()
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: said.Code, Reason: metav1.StatusReason(TruncateText(string(said.Reason), nameBytesMax)),
			Message: strings.Clone(conditions.ShortenText(said.Message, messageBytesMax)),
		}}
	}
	short := &shortError{text: strings.Clone(conditions.ShortenText(err.Error(), messageBytesMax))}
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) { // which has all that the server showed
		short.kind = &tls.CertificateVerificationError{Err: errors.New(short.text)}
	}
	return short
}

// shortError says what another error said, and has nothing of it but that.
type shortError struct {
	text string
	kind error // what errors.As finds; may be nil
}

func (e *shortError) Error() string { return e.text }
func (e *shortError) Unwrap() error { return e.kind }

// pollObject reads the one object that there can be a number of times.
func (s *session[T]) pollObject(pause *wait.Backoff) {
	for range pollsPerWatch {
		object, err := s.source.get(s.ctx)
		switch {
		case s.ctx.Err() != nil:
			return
		case apierrors.IsNotFound(err):
			s.handler.Replace(nil, "")
		case err != nil:
			s.handler.Failed(shortenError(err))
		default:
			object.SetManagedFields(nil)
			s.handler.Replace([]T{object}, object.GetResourceVersion())
		}
		if !backoff.SleepContext(s.ctx, s.clock, pause.Step()) {
			return
		}
	}
}
