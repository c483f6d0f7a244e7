// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/callout"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/interpret/users"
	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// refusedMin and refusedMax bound the time between two questions to a hub that does
	// not let the agent read customizations whether it may; it doubles. A new work of a
	// binding is a reason to ask at once, but for the first of these.
	refusedMin = time.Second
	refusedMax = time.Minute
	// refusedFor is for how long a hub has to refuse before the agent goes on without what
	// its users say: it refuses, too, while a feature gate was just turned on or a role
	// is about to be granted. Until then it is asked every refusedAgain.
	refusedFor   = 30 * time.Second
	refusedAgain = 5 * time.Second
	// failedMin and failedMax bound the time between two questions to a hub that does
	// not answer.
	failedMin = 100 * time.Millisecond
	failedMax = 5 * time.Second
)

// HubRegistry are the hubs of all clusters that an agent works for.
type HubRegistry struct {
	clock clock.WithTicker
	log   logr.Logger
	guard *dial.AddressGuard

	mu   sync.Mutex
	hubs map[string]*InterpreterHub // by the URL
}

// NewHubRegistry returns no hubs. Scripts find the time of the clock, and webhooks are called at the
// addresses that the guard lets be dialled; nil lets all be.
func NewHubRegistry(log logr.Logger, clk clock.PassiveClock, guard *dial.AddressGuard) *HubRegistry {
	h := &HubRegistry{log: log, guard: guard, clock: clock.RealClock{}, hubs: map[string]*InterpreterHub{}}
	if ticking, is := clk.(clock.WithTicker); is {
		h.clock = ticking
	}
	return h
}

// InterpreterHub is what the users of one hub say. It is safe for concurrent use.
type InterpreterHub struct {
	hubs *HubRegistry
	url  string
	// calls are those of webhooks. Agents call them themselves, at their URLs: a Service
	// of the hub has a name that is somebody else's in a cluster.
	calls *callout.Caller
	said  *users.UserInterpreters

	mu sync.Mutex
	// users are told of the kinds of which something else is said; nil is that it is
	// known now what is said.
	users map[*fleet.Connection]func(changed []schema.GroupVersionKind)
	// stop ends what reads the hub, and ended is closed when it has; nil before the
	// hub was needed.
	stop  context.CancelFunc
	ended chan struct{}
	// again has the hub asked again that refused, and anew that for webhooks.
	again, anew chan struct{}
	// left says that nobody uses the hub any more.
	left bool
	// known says that the hub said what customizations there are, or for a while that the
	// agent may not know, and heard says so of webhooks.
	known, heard bool
	// customizations and configurations are what the hub said, by the name.
	customizations map[string]customization
	configurations map[string]configuration
}

// JoinHub makes a connection use its hub, until it leaves. Changed has to return soon.
func (h *HubRegistry) JoinHub(c *fleet.Connection, changed func(changed []schema.GroupVersionKind)) *InterpreterHub {
	h.mu.Lock()
	defer h.mu.Unlock()
	hub := h.hubs[c.HubHost]
	if hub == nil {
		calls := callout.NewCaller(callout.CallerOptions{Clock: h.clock, Guard: h.guard})
		hub = &InterpreterHub{
			hubs: h, url: c.HubHost, calls: calls, said: users.NewUserInterpreters(h.clock.Now, calls),
			users: map[*fleet.Connection]func([]schema.GroupVersionKind){}, again: make(chan struct{}, 1), anew: make(chan struct{}, 1),
			customizations: map[string]customization{}, configurations: map[string]configuration{},
		}
		h.hubs[c.HubHost] = hub
	}
	hub.mu.Lock()
	defer hub.mu.Unlock()
	hub.users[c] = changed
	return hub
}

// LeaveHub ends what a connection began with JoinHub.
func (h *InterpreterHub) LeaveHub(c *fleet.Connection) {
	h.hubs.mu.Lock()
	h.mu.Lock()
	delete(h.users, c)
	last := len(h.users) == 0
	h.left = h.left || last
	if last && h.hubs.hubs[h.url] == h {
		delete(h.hubs.hubs, h.url)
	}
	stop := h.stop
	ended := h.ended
	h.mu.Unlock()
	h.hubs.mu.Unlock()
	if last && stop != nil {
		stop()
		<-ended
	}
}

// StartReading begins to read the hub if that has not begun yet: the hub has sent something
// that its users may have customized. One that refused is asked again.
func (h *InterpreterHub) StartReading(ctx context.Context, c *fleet.Connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left {
		return
	}
	if h.stop != nil {
		for _, again := range []chan struct{}{h.again, h.anew} {
			select {
			case again <- struct{}{}:
			default:
			}
		}
		return
	}
	// Other connections use the hub, too, and may do so for longer.
	ctx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	h.ended = make(chan struct{})
	reader, err := newHubReader(c)
	if err != nil { // the agent goes on as with a hub that has none
		h.hubs.log.Error(err, "Cannot read what the users of the hub say of kinds", "hub", h.url)
		h.known = true
		h.heard = true
		close(h.ended)
		return
	}
	go func() {
		defer close(h.ended)
		var all sync.WaitGroup
		for _, one := range h.hubSources(reader) {
			all.Go(func() { h.readSource(ctx, reader, one) })
		}
		all.Go(func() { _ = h.calls.Start(ctx) }) // it never fails
		all.Wait()
	}()
}

// IsInterpretationKnown reports whether it is known what users of the hub say. Until then nothing may
// be applied or reported that they may have customized.
func (h *InterpreterHub) IsInterpretationKnown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known && h.heard
}

// hubSource is one of the things that a hub is read for.
type hubSource struct {
	resource string
	again    chan struct{}
	// none takes in that the agent may not read it.
	none func()
	// follow reads it until ctx ends, or the hub refuses that.
	follow func(context.Context)
}

func (h *InterpreterHub) hubSources(from *hubReader) []hubSource {
	return []hubSource{
		{
			resource: "resourceinterpretercustomizations", again: h.again, none: func() { h.takeIn(&h.known, nil) },
			follow: func(ctx context.Context) {
				watchKind(ctx, from, &configv1alpha1.ResourceInterpreterCustomizationList{}, slimCustomization, h.followCustomizations)
			},
		},
		{
			resource: "resourceinterpreterwebhookconfigurations", again: h.anew, none: func() { h.takeIn(&h.heard, nil) },
			follow: func(ctx context.Context) {
				watchKind(ctx, from, &configv1alpha1.ResourceInterpreterWebhookConfigurationList{}, slimConfiguration, h.followConfigurations)
			},
		},
	}
}

// hubReader reads a hub.
type hubReader struct {
	objects client.WithWatch
	reviews authorizationclient.SelfSubjectAccessReviewInterface
}

func newHubReader(c *fleet.Connection) (*hubReader, error) {
	config := c.Hub.GetConfig()
	http := c.Hub.GetHTTPClient()
	objects, err := client.NewWithWatch(config, client.Options{HTTPClient: http, Scheme: c.Hub.GetScheme(), Mapper: c.Hub.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for customizations: %w", err)
	}
	reviews, err := authorizationclient.NewForConfigAndClient(config, http)
	if err != nil {
		return nil, fmt.Errorf("making a client for reviews: %w", err)
	}
	return &hubReader{objects: objects, reviews: reviews.SelfSubjectAccessReviews()}, nil
}

// mayReadResource reports whether the agent may read a resource. To be refused what one may
// not read would make the agent doubt its membership.
func (r *hubReader) mayReadResource(ctx context.Context, resource string) (bool, error) {
	review, err := r.reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "watch", Group: configv1alpha1.GroupName, Resource: resource,
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking the hub whether the agent may read %s: %w", resource, err)
	}
	return review.Status.Allowed, nil
}

// readSource reads one thing of the hub until ctx ends.
func (h *InterpreterHub) readSource(ctx context.Context, from *hubReader, what hubSource) {
	failed := backoff.ExponentialBetween(failedMin, failedMax)
	refused := backoff.ExponentialBetween(refusedMin, refusedMax)
	var since time.Time // when the hub began to refuse
	for goesOn := true; goesOn; {
		may, err := from.mayReadResource(ctx, what.resource)
		if err != nil {
			h.hubs.log.V(1).Info("Trying again", "problem", err.Error())
			goesOn = backoff.SleepContext(ctx, h.hubs.clock, failed.Step())
			continue
		}
		failed = backoff.ExponentialBetween(failedMin, failedMax)
		asked := h.hubs.clock.Now()
		if may {
			what.follow(ctx)
		}
		now := h.hubs.clock.Now()
		if since.IsZero() || now.Sub(asked) >= refusedFor { // it has let the agent read for a while
			since = now
		}
		next := refusedAgain
		if now.Sub(since) >= refusedFor {
			what.none()
			next = refused.Step()
		}
		goesOn = h.pauseRefused(ctx, what.again, next)
	}
}

// pauseRefused waits for a while after the hub refused, or until there is a reason to ask
// again. It reports whether ctx goes on.
func (h *InterpreterHub) pauseRefused(ctx context.Context, again <-chan struct{}, most time.Duration) bool {
	if !backoff.SleepContext(ctx, h.hubs.clock, refusedMin) {
		return false
	}
	timer := h.hubs.clock.NewTimer(most - refusedMin)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-again:
	case <-timer.C():
	}
	return true
}
