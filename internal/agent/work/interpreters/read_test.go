// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// answers is a hub that says whether the agent may read what it asks for.
type answers struct {
	authorizationclient.SelfSubjectAccessReviewInterface
	allowed atomic.Bool
	asked   atomic.Int32
}

func (a *answers) Create(context.Context, *authorizationv1.SelfSubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	a.asked.Add(1)
	return &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: a.allowed.Load()}}, nil
}

// reading is a hub of which customizations are read by a clock that the test has.
type reading struct {
	*InterpreterHub
	t       *testing.T
	clock   *clocktesting.FakeClock
	answers *answers
}

// reads begins to read a hub of which webhooks are known.
func reads(t *testing.T, follow func(context.Context, *InterpreterHub)) *reading {
	t.Helper()
	r := &reading{t: t, clock: clocktesting.NewFakeClock(time.Now()), answers: &answers{}}
	hubs := NewHubRegistry(logr.Discard(), r.clock, nil)
	r.InterpreterHub = hubs.JoinHub(&fleet.Connection{HubHost: "https://hub"}, func([]schema.GroupVersionKind) {})
	r.takeIn(&r.heard, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.readSource(ctx, &hubReader{reviews: r.answers}, hubSource{
			again: r.again, none: func() { r.takeIn(&r.known, nil) }, follow: func(ctx context.Context) { follow(ctx, r.InterpreterHub) },
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

// passes lets time pass, second by second, until it is known what users say. It
// returns how long that took.
func (r *reading) passes(most time.Duration) time.Duration {
	began := r.clock.Now()
	for r.clock.Since(began) < most {
		for !r.clock.HasWaiters() && !r.IsInterpretationKnown() {
			time.Sleep(time.Millisecond)
		}
		if r.IsInterpretationKnown() {
			break
		}
		r.clock.Step(time.Second)
	}
	return r.clock.Since(began)
}

func TestARefusalIsBelievedIfItLasts(t *testing.T) {
	t.Parallel()
	refuses := func(_ context.Context, h *InterpreterHub) {
		h.followCustomizations(func() {}).Failed(apierrors.NewNotFound(schema.GroupResource{}, ""))
	}
	for name, allowed := range map[string]bool{"it says so": false, "it does not serve them": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := reads(t, refuses)
			r.answers.allowed.Store(allowed)
			took := r.passes(2 * refusedFor)
			if took < refusedFor || took > refusedFor+2*refusedAgain {
				t.Errorf("it was believed after %s, want it after %s", took, refusedFor)
			}
			if asked, want := int(r.answers.asked.Load()), int(refusedFor/refusedAgain); asked < want || asked > want+2 {
				t.Errorf("the hub was asked %d times, want %d", asked, want)
			}
		})
	}
}

func TestAHubThatRefusesAtFirstIsHeard(t *testing.T) {
	t.Parallel()
	r := reads(t, func(ctx context.Context, h *InterpreterHub) {
		h.followCustomizations(func() {}).Update(example(1, "true"))
		<-ctx.Done()
	})
	if took := r.passes(refusedFor / 2); took < refusedFor/2 {
		t.Fatalf("nothing was said, and that was believed after %s", took)
	}
	r.answers.allowed.Store(true)
	if took := r.passes(refusedFor); took > 2*refusedAgain {
		t.Errorf("it was asked again after %s", took)
	}
	if !r.IsInterpretationKnown() || r.RevisionOf(kindOf(1)).Retention == 0 {
		t.Error("what its users say is not known")
	}
}

func TestNothingIsKnownByARefusalAlone(t *testing.T) {
	t.Parallel()
	hub := NewHubRegistry(logr.Discard(), clocktesting.NewFakeClock(time.Now()), nil).JoinHub(&fleet.Connection{}, func([]schema.GroupVersionKind) {})
	ended := 0
	refused := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	hub.followCustomizations(func() { ended++ }).Failed(refused)
	hub.followConfigurations(func() { ended++ }).Failed(refused)
	if hub.known || hub.heard || ended != 2 {
		t.Errorf("customizations are known: %t, webhooks: %t; %d watches ended", hub.known, hub.heard, ended)
	}
}

func TestAHubThatNobodyUsesIsNotRead(t *testing.T) {
	t.Parallel()
	c := &fleet.Connection{HubHost: "https://hub"}
	hub := NewHubRegistry(logr.Discard(), clocktesting.NewFakeClock(time.Now()), nil).JoinHub(c, func([]schema.GroupVersionKind) {})
	hub.LeaveHub(c)
	if hub.StartReading(t.Context(), c); hub.stop != nil {
		t.Error("it is read")
	}
}
