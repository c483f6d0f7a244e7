// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

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
	// allowedTTL is how long a user is believed without asking again. It is also
	// how long a revoked token still works.
	allowedTTL = time.Minute
	// deniedTTL is short, so that granting the right works at once.
	deniedTTL = 5 * time.Second
	// decisionsMax is how many decisions of each sort are remembered. Scrapers and
	// people are a handful; the limit holds memory against a flood.
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

// AccessDecision is the answer to a request of one user for one thing.
type AccessDecision struct {
	// Status is http.StatusOK, StatusUnauthorized or StatusForbidden.
	Status int
	// Message says what the user lacks, if the request is refused.
	Message string
}

// AccessRequest is what a request asks for: a resource, or a path that is none. The zero
// value is nothing that not every user may.
type AccessRequest struct {
	Resource    *authorizationv1.ResourceAttributes
	NonResource *authorizationv1.NonResourceAttributes
}

// String returns it as text, which differs for all that is reviewed differently.
func (w AccessRequest) String() string {
	switch {
	case w.NonResource != nil:
		return w.NonResource.Verb + " " + w.NonResource.Path
	case w.Resource != nil:
		text := fmt.Sprintf("%s %s.%s", w.Resource.Verb, w.Resource.Resource, w.Resource.Group)
		if w.Resource.Name != "" {
			text += fmt.Sprintf(" %q", w.Resource.Name)
		}
		return text + fmt.Sprintf(" in namespace %q", w.Resource.Namespace)
	default:
		return ""
	}
}

// grantHint says what to grant to a user that may not.
func (w AccessRequest) grantHint() string {
	if w.NonResource != nil {
		return fmt.Sprintf("bind it to a ClusterRole with the non-resource URL %q and the verb %q", w.NonResource.Path, w.NonResource.Verb)
	}
	return fmt.Sprintf("bind it there to a Role with the verb %q for %s.%s", w.Resource.Verb, w.Resource.Resource, w.Resource.Group)
}

// AccessGuard tells which requests to let through.
type AccessGuard struct {
	authenticate func(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error)
	authorize    func(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
	allowed      *cache.LRUExpireCache
	denied       *cache.LRUExpireCache
	inFlight     chan struct{}
}

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// NewAccessGuard returns a guard that asks the API server of the config. The
// component needs the right to create TokenReviews and SubjectAccessReviews.
func NewAccessGuard(config *rest.Config, httpClient *http.Client) (*AccessGuard, error) {
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

func newGuard(c clock.PassiveClock) *AccessGuard {
	return &AccessGuard{
		allowed:  cache.NewLRUExpireCacheWithClock(decisionsMax, c),
		denied:   cache.NewLRUExpireCacheWithClock(decisionsMax, c),
		inFlight: make(chan struct{}, reviewsInFlightMax),
	}
}

// Decide reports whether the bearer of the request's token may do what it asks
// for. It asks the API server unless it was asked a moment ago. An error is the
// API server's.
func (g *AccessGuard) Decide(r *http.Request, what AccessRequest) (AccessDecision, error) {
	token, ok := parseBearerToken(r.Header.Get("Authorization"))
	if !ok {
		return AccessDecision{http.StatusUnauthorized, "send the bearer token of a user or ServiceAccount that may read this"}, nil
	}
	// The token itself is not kept.
	key := sha256.Sum256([]byte(token + "\x00" + what.String()))
	for _, decisions := range []*cache.LRUExpireCache{g.allowed, g.denied} {
		if known, ok := decisions.Get(key); ok {
			if decision, ok := known.(AccessDecision); ok {
				return decision, nil
			}
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	answer, err := g.reviewAccess(ctx, token, what)
	if err != nil {
		return AccessDecision{}, err
	}
	if answer.Status == http.StatusOK {
		g.allowed.Add(key, answer, allowedTTL)
	} else {
		g.denied.Add(key, answer, deniedTTL)
	}
	return answer, nil
}

func (g *AccessGuard) reviewAccess(ctx context.Context, token string, what AccessRequest) (AccessDecision, error) {
	select {
	case g.inFlight <- struct{}{}:
		defer func() { <-g.inFlight }()
	case <-ctx.Done():
		return AccessDecision{}, fmt.Errorf("waiting for %d other reviews: %w", reviewsInFlightMax, ctx.Err())
	}
	who, err := g.authenticate(ctx, token)
	if err != nil {
		return AccessDecision{}, fmt.Errorf("reviewing a token: %w", err)
	}
	if !who.Authenticated {
		return AccessDecision{http.StatusUnauthorized, "the API server rejects this token; it may have expired"}, nil
	}
	if what == (AccessRequest{}) {
		return AccessDecision{Status: http.StatusOK}, nil
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes:    what.Resource,
		NonResourceAttributes: what.NonResource,
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
		return AccessDecision{}, fmt.Errorf("reviewing whether %q may %s: %w", who.User.Username, what, err)
	}
	if !may.Allowed || may.Denied {
		return AccessDecision{http.StatusForbidden, fmt.Sprintf("%q may not %s: %s", who.User.Username, what, what.grantHint())}, nil
	}
	return AccessDecision{Status: http.StatusOK}, nil
}

// parseBearerToken returns the token of an Authorization header.
func parseBearerToken(header string) (string, bool) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "bearer") && token != "" && len(token) <= tokenBytesMax
}
