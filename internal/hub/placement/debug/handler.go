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

// accessReviewer tells what the bearer of a request's token may do. It is a guard.AccessGuard.
type accessReviewer interface {
	Decide(r *http.Request, what guard.AccessRequest) (guard.AccessDecision, error)
}

// handler answers requests for Path.
type handler struct {
	reviews     accessReviewer
	cached      client.Client
	clock       clock.PassiveClock
	log         logr.Logger
	requests    chan struct{}
	evaluations chan struct{}
}

func newHandler(reviews accessReviewer, cached client.Client, clk clock.PassiveClock, log logr.Logger) *handler {
	return &handler{
		reviews: reviews, cached: cached, clock: clk, log: log,
		requests: make(chan struct{}, requestsMax), evaluations: make(chan struct{}, evaluationsMax),
	}
}

// ServeHTTP answers in JSON, refusals included.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	answer, err := h.answerRequest(w, r.WithContext(ctx))
	status := http.StatusOK
	if err != nil {
		status, answer = h.failureAnswer(err)
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

// failureAnswer returns what a client is told of an error. What is not its own fault is
// logged, as it may say more than the client may know.
func (h *handler) failureAnswer(err error) (int, EvaluationAnswer) {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.status, EvaluationAnswer{Error: refused.text}
	}
	h.log.Error(err, "Cannot answer a request for the debug endpoint")
	return http.StatusServiceUnavailable, EvaluationAnswer{Error: "the request could not be answered now; try again"}
}

func (h *handler) answerRequest(w http.ResponseWriter, r *http.Request) (EvaluationAnswer, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return EvaluationAnswer{}, refuse(http.StatusMethodNotAllowed, "use GET for a Placement that exists, or POST with one in the body")
	}
	key, err := placementKeyFromPath(r.Method, r.URL.Path)
	if err != nil {
		return EvaluationAnswer{}, err
	}
	asks := accessToPlacements("get", key)
	read := h.readStoredPlacement
	if r.Method == http.MethodPost {
		asks = guard.AccessRequest{} // which depends on the body
		read = func(r *http.Request, key types.NamespacedName) (*clusterv1beta1.Placement, error) {
			return h.readPostedPlacement(w, r, key)
		}
	}
	// Whoever is not known yet takes no place: reviews of tokens wait for each other.
	if err := h.authorize(r, asks); err != nil {
		return EvaluationAnswer{}, err
	}
	select {
	case h.requests <- struct{}{}:
		defer func() { <-h.requests }()
	default:
		return EvaluationAnswer{}, refuse(http.StatusServiceUnavailable, "%d other requests are being answered; try again", requestsMax)
	}
	p, err := read(r, key)
	if err != nil {
		return EvaluationAnswer{}, err
	}
	return h.evaluate(r.Context(), p)
}

// readStoredPlacement returns a Placement that exists. Its user may get it.
func (h *handler) readStoredPlacement(r *http.Request, key types.NamespacedName) (*clusterv1beta1.Placement, error) {
	p := &clusterv1beta1.Placement{}
	err := h.cached.Get(r.Context(), key, p)
	if apierrors.IsNotFound(err) {
		return nil, refuse(http.StatusNotFound, "there is no Placement %q", key)
	}
	return p, err
}

// readPostedPlacement returns the Placement in the body to those who may create it. Its user is
// known.
func (h *handler) readPostedPlacement(w http.ResponseWriter, r *http.Request, key types.NamespacedName) (*clusterv1beta1.Placement, error) {
	p, err := decodePlacement(w, r, key)
	if err != nil {
		return nil, err
	}
	key = client.ObjectKeyFromObject(p)
	if err := h.authorize(r, accessToPlacements("create", types.NamespacedName{Namespace: key.Namespace})); err != nil {
		return nil, err
	}
	// The present decisions are those of a Placement of this name, for those who may
	// know of it.
	p.UID = ""
	if key.Name == "" {
		return p, nil
	}
	known, err := h.reviews.Decide(r, accessToPlacements("get", key))
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
func (h *handler) evaluate(ctx context.Context, p *clusterv1beta1.Placement) (EvaluationAnswer, error) {
	select {
	case h.evaluations <- struct{}{}:
		defer func() { <-h.evaluations }()
	case <-ctx.Done():
		return EvaluationAnswer{}, refuse(http.StatusServiceUnavailable, "other Placements are being evaluated; try again")
	}
	result, problems, err := placement.PreviewScheduling(ctx, h.cached, h.clock, p)
	if err != nil {
		return EvaluationAnswer{}, err
	}
	if len(problems) > 0 {
		return EvaluationAnswer{Placement: stripPlacement(p), Error: problems.ToAggregate().Error()}, nil
	}
	return newEvaluationAnswer(p, result), nil
}

// authorize returns a refusal unless the user may do what is asked.
func (h *handler) authorize(r *http.Request, what guard.AccessRequest) error {
	decision, err := h.reviews.Decide(r, what)
	if err != nil {
		return err
	}
	if decision.Status != http.StatusOK {
		return refuse(decision.Status, "%s", decision.Message)
	}
	return nil
}

func accessToPlacements(verb string, key types.NamespacedName) guard.AccessRequest {
	return guard.AccessRequest{Resource: &authorizationv1.ResourceAttributes{
		Verb: verb, Group: clusterv1beta1.GroupVersion.Group, Version: clusterv1beta1.GroupVersion.Version, Resource: "placements",
		Namespace: key.Namespace, Name: key.Name,
	}}
}
