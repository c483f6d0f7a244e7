// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

const (
	// allowedTTL is how long a reader is believed without asking again. It is
	// also how long a revoked token can still read.
	allowedTTL = time.Minute
	// deniedTTL is short, so that granting the right works at once.
	deniedTTL = 5 * time.Second
	// decisionsMax is how many decisions of each sort are remembered. A handful
	// of scrapers read the metrics; the limit holds memory against a flood.
	decisionsMax = 128
	// reviewsInFlightMax bounds what a flood of unknown tokens costs the API
	// server; those beyond wait.
	reviewsInFlightMax = 4
	// reviewTimeout bounds both reviews of one request, waiting included.
	reviewTimeout = 10 * time.Second
	// tokenBytesMax is more than any token of Kubernetes has. Longer ones are
	// refused unseen.
	tokenBytesMax = 16 << 10
)

// decision is the answer to one reader's request for one path.
type decision struct {
	status  int // http.StatusOK if it may read
	message string
}

// Guard lets those requests through whose bearer token belongs to a user that
// may do the request's verb on its path, as a non-resource URL.
type Guard struct {
	authenticate func(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error)
	authorize    func(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
	allowed      *cache.LRUExpireCache
	denied       *cache.LRUExpireCache
	inFlight     chan struct{}
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// NewGuard returns a guard that asks the API server of the config. The
// component needs the right to create TokenReviews and SubjectAccessReviews.
func NewGuard(config *rest.Config, httpClient *http.Client) (*Guard, error) {
	authentication, err := authenticationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making a client for token reviews: %w", err)
	}
	authorization, err := authorizationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making a client for access reviews: %w", err)
	}
	guard := newGuard(clock.RealClock{})
	guard.authenticate = func(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		answer, err := authentication.TokenReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return authenticationv1.TokenReviewStatus{}, err
		}
		return answer.Status, nil
	}
	guard.authorize = func(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: spec}
		answer, err := authorization.SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return authorizationv1.SubjectAccessReviewStatus{}, err
		}
		return answer.Status, nil
	}
	return guard, nil
}

func newGuard(c clock.PassiveClock) *Guard {
	return &Guard{
		allowed:  cache.NewLRUExpireCacheWithClock(decisionsMax, c),
		denied:   cache.NewLRUExpireCacheWithClock(decisionsMax, c),
		inFlight: make(chan struct{}, reviewsInFlightMax),
	}
}

// Protect is a filter of controller-runtime's metrics server.
func (g *Guard) Protect(log logr.Logger, next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := g.decide(r)
		if err != nil {
			log.Error(err, "Cannot tell whether the reader of the metrics may read them")
			http.Error(w, "the API server could not review your permissions; try again", http.StatusServiceUnavailable)
			return
		}
		if answer.status == http.StatusOK {
			next.ServeHTTP(w, r)
			return
		}
		if answer.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, answer.message, answer.status)
	}), nil
}

// decide returns what was decided before, or asks the API server.
func (g *Guard) decide(r *http.Request) (decision, error) {
	token, ok := bearer(r.Header.Get("Authorization"))
	if !ok {
		return decision{http.StatusUnauthorized, "send the bearer token of a user or ServiceAccount that may read this"}, nil
	}
	verb := strings.ToLower(r.Method)
	// The token itself is not kept.
	key := sha256.Sum256([]byte(token + "\x00" + verb + "\x00" + r.URL.Path))
	if known, ok := g.allowed.Get(key); ok {
		return known.(decision), nil
	}
	if known, ok := g.denied.Get(key); ok {
		return known.(decision), nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	answer, err := g.review(ctx, token, verb, r.URL.Path)
	if err != nil {
		return decision{}, err
	}
	if answer.status == http.StatusOK {
		g.allowed.Add(key, answer, allowedTTL)
	} else {
		g.denied.Add(key, answer, deniedTTL)
	}
	return answer, nil
}

func (g *Guard) review(ctx context.Context, token, verb, path string) (decision, error) {
	select {
	case g.inFlight <- struct{}{}:
		defer func() { <-g.inFlight }()
	case <-ctx.Done():
		return decision{}, fmt.Errorf("waiting for %d other reviews: %w", reviewsInFlightMax, ctx.Err())
	}
	who, err := g.authenticate(ctx, token)
	if err != nil {
		return decision{}, fmt.Errorf("reviewing a reader's token: %w", err)
	}
	if !who.Authenticated {
		return decision{http.StatusUnauthorized, "the API server rejects this token; it may have expired"}, nil
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
		User:                  who.User.Username,
		UID:                   who.User.UID,
		Groups:                who.User.Groups,
	}
	if len(who.User.Extra) > 0 {
		spec.Extra = make(map[string]authorizationv1.ExtraValue, len(who.User.Extra))
		for name, values := range who.User.Extra {
			spec.Extra[name] = authorizationv1.ExtraValue(values)
		}
	}
	may, err := g.authorize(ctx, spec)
	if err != nil {
		return decision{}, fmt.Errorf("reviewing whether %q may %s %s: %w", who.User.Username, verb, path, err)
	}
	if !may.Allowed || may.Denied {
		return decision{http.StatusForbidden, fmt.Sprintf(
			"%q may not %s %s: bind it to a ClusterRole with the non-resource URL %q and the verb %q",
			who.User.Username, verb, path, path, verb)}, nil
	}
	return decision{status: http.StatusOK}, nil
}

// bearer returns the token of an Authorization header.
func bearer(header string) (string, bool) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "bearer") && token != "" && len(token) <= tokenBytesMax
}
