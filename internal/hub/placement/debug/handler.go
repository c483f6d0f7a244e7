// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/server/guard"
)

const (
	// requestsMax is how many requests are held at a time, waiting included. More
	// are refused, as each may hold a body.
	requestsMax = 32
	// evaluationsMax is how many Placements are evaluated at a time.
	evaluationsMax = 2
	// requestTimeout bounds one request, waiting included.
	requestTimeout = 30 * time.Second
)

// reviewer tells what the bearer of a request's token may do. It is a guard.Guard.
type reviewer interface {
	Decide(r *http.Request, what guard.What) (guard.Decision, error)
}

// handler answers requests for Path.
type handler struct {
	reviews     reviewer
	cached      client.Client
	clock       clock.PassiveClock
	log         logr.Logger
	requests    chan struct{}
	evaluations chan struct{}
}

func newHandler(reviews reviewer, cached client.Client, clk clock.PassiveClock, log logr.Logger) *handler {
	return &handler{
		reviews: reviews, cached: cached, clock: clk, log: log,
		requests: make(chan struct{}, requestsMax), evaluations: make(chan struct{}, evaluationsMax),
	}
}

// ServeHTTP answers in JSON, refusals included.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	answer, err := h.answer(w, r.WithContext(ctx))
	status := http.StatusOK
	if err != nil {
		status, answer = h.failure(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", "GET, POST")
	}
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		h.log.V(1).Info("The client of the debug endpoint has gone", "problem", err.Error())
	}
}

// failure returns what a client is told of an error. What is not its own fault is
// logged, as it may say more than the client may know.
func (h *handler) failure(err error) (int, Answer) {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.status, Answer{Error: refused.text}
	}
	h.log.Error(err, "Cannot answer a request for the debug endpoint")
	return http.StatusServiceUnavailable, Answer{Error: "the request could not be answered now; try again"}
}

func (h *handler) answer(w http.ResponseWriter, r *http.Request) (Answer, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return Answer{}, refuse(http.StatusMethodNotAllowed, "use GET for a Placement that exists, or POST with one in the body")
	}
	key, err := keyOf(r.Method, r.URL.Path)
	if err != nil {
		return Answer{}, err
	}
	asks := placements("get", key)
	read := h.stored
	if r.Method == http.MethodPost {
		asks = guard.What{} // which depends on the body
		read = func(r *http.Request, key types.NamespacedName) (*clusterv1beta1.Placement, error) {
			return h.sent(w, r, key)
		}
	}
	// Whoever is not known yet takes no place: reviews of tokens wait for each other.
	if err := h.authorize(r, asks); err != nil {
		return Answer{}, err
	}
	select {
	case h.requests <- struct{}{}:
		defer func() { <-h.requests }()
	default:
		return Answer{}, refuse(http.StatusServiceUnavailable, "%d other requests are being answered; try again", requestsMax)
	}
	p, err := read(r, key)
	if err != nil {
		return Answer{}, err
	}
	return h.evaluate(r.Context(), p)
}

// stored returns a Placement that exists. Its user may get it.
func (h *handler) stored(r *http.Request, key types.NamespacedName) (*clusterv1beta1.Placement, error) {
	p := &clusterv1beta1.Placement{}
	err := h.cached.Get(r.Context(), key, p)
	if apierrors.IsNotFound(err) {
		return nil, refuse(http.StatusNotFound, "there is no Placement %q", key)
	}
	return p, err
}

// sent returns the Placement in the body to those who may create it. Its user is
// known.
func (h *handler) sent(w http.ResponseWriter, r *http.Request, key types.NamespacedName) (*clusterv1beta1.Placement, error) {
	p, err := decode(w, r, key)
	if err != nil {
		return nil, err
	}
	key = client.ObjectKeyFromObject(p)
	if err := h.authorize(r, placements("create", types.NamespacedName{Namespace: key.Namespace})); err != nil {
		return nil, err
	}
	// The present decisions are those of a Placement of this name, for those who may
	// know of it.
	p.UID = ""
	if key.Name == "" {
		return p, nil
	}
	known, err := h.reviews.Decide(r, placements("get", key))
	if err != nil || known.Status != http.StatusOK {
		return p, err
	}
	present := &clusterv1beta1.Placement{}
	if err := h.cached.Get(r.Context(), key, present); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	p.UID = present.UID
	return p, nil
}

// evaluate finds out what the Placement chooses now.
func (h *handler) evaluate(ctx context.Context, p *clusterv1beta1.Placement) (Answer, error) {
	select {
	case h.evaluations <- struct{}{}:
		defer func() { <-h.evaluations }()
	case <-ctx.Done():
		return Answer{}, refuse(http.StatusServiceUnavailable, "other Placements are being evaluated; try again")
	}
	result, problems, err := placement.Preview(ctx, h.cached, h.clock, p)
	if err != nil {
		return Answer{}, err
	}
	if len(problems) > 0 {
		return Answer{Placement: bare(p), Error: problems.ToAggregate().Error()}, nil
	}
	return answerOf(p, result), nil
}

// authorize returns a refusal unless the user may do what is asked.
func (h *handler) authorize(r *http.Request, what guard.What) error {
	decision, err := h.reviews.Decide(r, what)
	if err != nil {
		return err
	}
	if decision.Status != http.StatusOK {
		return refuse(decision.Status, "%s", decision.Message)
	}
	return nil
}

func placements(verb string, key types.NamespacedName) guard.What {
	return guard.What{Resource: &authorizationv1.ResourceAttributes{
		Verb: verb, Group: clusterv1beta1.GroupVersion.Group, Version: clusterv1beta1.GroupVersion.Version, Resource: "placements",
		Namespace: key.Namespace, Name: key.Name,
	}}
}
