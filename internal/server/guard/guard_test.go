// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// reviewer answers for an API server and counts what it was asked.
type reviewer struct {
	tokens map[string]authenticationv1.UserInfo // those that it knows
	may    func(authorizationv1.SubjectAccessReviewSpec) bool
	err    error
	asked  int
}

func (r *reviewer) guard(c *clocktesting.FakePassiveClock) *AccessGuard {
	guard := newGuard(c)
	guard.authenticate = func(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
		r.asked++
		user, ok := r.tokens[token]
		return authenticationv1.TokenReviewStatus{Authenticated: ok, User: user}, r.err
	}
	guard.authorize = func(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: r.may(spec)}, nil
	}
	return guard
}

// metrics is what the requests of most tests ask for.
func metrics() AccessRequest {
	return AccessRequest{NonResource: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}}
}

// ask returns what the guard says to a request with the header. An error has
// status 0.
func ask(t *testing.T, guard *AccessGuard, authorization string, what AccessRequest) AccessDecision {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	decision, err := guard.Decide(request, what)
	if (err != nil) != (decision.Status == 0) {
		t.Fatalf("got %+v with the error %v", decision, err)
	}
	return decision
}

func TestGuardLetsThoseReadWhoMay(t *testing.T) {
	prometheus := authenticationv1.UserInfo{
		Username: "system:serviceaccount:monitoring:prometheus", UID: "7", Groups: []string{"system:serviceaccounts"},
		Extra: map[string]authenticationv1.ExtraValue{"pod": {"p-0"}},
	}
	cases := map[string]struct {
		reason        string
		authorization string
		may           bool
		err           error
		wantStatus    int
		wantBody      string
		wantAsked     int
	}{
		"a reader that may read is let through": {
			authorization: "Bearer good", may: true, wantStatus: http.StatusOK, wantAsked: 1,
		},
		"the scheme is not case sensitive": {
			reason:        "RFC 9110 says so, and some scrapers write it small",
			authorization: "bearer good", may: true, wantStatus: http.StatusOK, wantAsked: 1,
		},
		"a reader that may not read is told what it needs": {
			authorization: "Bearer good", wantStatus: http.StatusForbidden, wantAsked: 1,
			wantBody: `"system:serviceaccount:monitoring:prometheus" may not get /metrics: bind it to a ClusterRole with the non-resource URL "/metrics" and the verb "get"`,
		},
		"an unknown token is refused": {
			authorization: "Bearer bad", may: true, wantStatus: http.StatusUnauthorized, wantAsked: 1,
			wantBody: "the API server rejects this token",
		},
		"nobody is refused without asking": {
			may: true, wantStatus: http.StatusUnauthorized, wantBody: "send the bearer token",
		},
		"a password is refused without asking": {
			authorization: "Basic Z29vZA==", may: true, wantStatus: http.StatusUnauthorized, wantBody: "send the bearer token",
		},
		"an endless token is refused without asking": {
			reason:        "it would be sent on to the API server",
			authorization: "Bearer " + strings.Repeat("x", tokenBytesMax+1), may: true,
			wantStatus: http.StatusUnauthorized, wantBody: "send the bearer token",
		},
		"nobody reads while the API server cannot be asked": {
			authorization: "Bearer good", may: true, err: errors.New("connection refused"),
			wantAsked: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got authorizationv1.SubjectAccessReviewSpec
			api := &reviewer{
				tokens: map[string]authenticationv1.UserInfo{"good": prometheus}, err: tc.err,
				may: func(spec authorizationv1.SubjectAccessReviewSpec) bool { got = spec; return tc.may },
			}
			answer := ask(t, api.guard(clocktesting.NewFakePassiveClock(time.Unix(0, 0))), tc.authorization, metrics())
			if answer.Status != tc.wantStatus || !strings.Contains(answer.Message, tc.wantBody) {
				t.Errorf("%s\ngot %d %q, want %d %q", tc.reason, answer.Status, answer.Message, tc.wantStatus, tc.wantBody)
			}
			if api.asked != tc.wantAsked {
				t.Errorf("%s\nasked %d times, want %d", tc.reason, api.asked, tc.wantAsked)
			}
			if tc.wantStatus == http.StatusOK {
				want := authorizationv1.SubjectAccessReviewSpec{
					User: prometheus.Username, UID: "7", Groups: prometheus.Groups,
					Extra:                 map[string]authorizationv1.ExtraValue{"pod": {"p-0"}},
					NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("access review (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestGuardRemembersForAWhile(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	may := false
	api := &reviewer{
		tokens: map[string]authenticationv1.UserInfo{"good": {Username: "u"}},
		may:    func(authorizationv1.SubjectAccessReviewSpec) bool { return may },
	}
	guard := api.guard(clock)
	steps := []struct {
		sentence   string
		pass       time.Duration
		may        bool
		wantStatus int
		wantAsked  int
	}{
		{"the first request asks", 0, false, http.StatusForbidden, 1},
		{"a denial is remembered", deniedTTL - 1, true, http.StatusForbidden, 1},
		{"but not for long", 2, true, http.StatusOK, 2},
		{"a permission is remembered", allowedTTL - 1, false, http.StatusOK, 2},
		{"until its time is over", 2, false, http.StatusForbidden, 3},
	}
	for _, step := range steps {
		clock.SetTime(clock.Now().Add(step.pass))
		may = step.may
		if status := ask(t, guard, "Bearer good", metrics()).Status; status != step.wantStatus || api.asked != step.wantAsked {
			t.Fatalf("%s: got status %d after %d reviews, want %d after %d", step.sentence, status, api.asked, step.wantStatus, step.wantAsked)
		}
	}
}

func TestGuardDoesNotRememberFailures(t *testing.T) {
	api := &reviewer{
		tokens: map[string]authenticationv1.UserInfo{"good": {Username: "u"}}, err: errors.New("connection refused"),
		may: func(authorizationv1.SubjectAccessReviewSpec) bool { return true },
	}
	guard := api.guard(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	if status := ask(t, guard, "Bearer good", metrics()).Status; status != 0 {
		t.Fatalf("got status %d, want an error", status)
	}
	api.err = nil
	if status := ask(t, guard, "Bearer good", metrics()).Status; status != http.StatusOK {
		t.Errorf("got status %d after the API server came back, want %d", status, http.StatusOK)
	}
}

func TestGuardForgetsBadTokensRatherThanGoodOnes(t *testing.T) {
	api := &reviewer{
		tokens: map[string]authenticationv1.UserInfo{"good": {Username: "u"}},
		may:    func(authorizationv1.SubjectAccessReviewSpec) bool { return true },
	}
	guard := api.guard(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	ask(t, guard, "Bearer good", metrics())
	for i := range 2 * decisionsMax {
		ask(t, guard, "Bearer "+strings.Repeat("x", i+1), metrics())
	}
	asked := api.asked
	if status := ask(t, guard, "Bearer good", metrics()).Status; status != http.StatusOK || api.asked != asked {
		t.Errorf("got status %d after %d more reviews: a flood of bad tokens must not push a good one out", status, api.asked-asked)
	}
	if got := len(guard.denied.Keys()); got > decisionsMax {
		t.Errorf("remembers %d denials, want at most %d", got, decisionsMax)
	}
}

func TestGuardBoundsWhatAFloodCosts(t *testing.T) {
	guard := newGuard(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	for range reviewsInFlightMax {
		guard.inFlight <- struct{}{}
	}
	guard.authenticate = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
		t.Error("asked the API server although as many reviews as allowed were in flight")
		return authenticationv1.TokenReviewStatus{}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := guard.reviewAccess(ctx, "t", metrics()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the request's context", err)
	}
}

func TestGuardReviewsEachThingByItself(t *testing.T) {
	placements := func(verb, namespace, name string) AccessRequest {
		return AccessRequest{Resource: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: "cluster.example", Resource: "placements", Namespace: namespace, Name: name,
		}}
	}
	api := &reviewer{
		tokens: map[string]authenticationv1.UserInfo{"good": {Username: "alice"}},
		may: func(spec authorizationv1.SubjectAccessReviewSpec) bool {
			return *spec.ResourceAttributes == *placements("get", "a", "p").Resource
		},
	}
	guard := api.guard(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	for range 2 { // the second time it remembers
		for _, tc := range []struct {
			what    AccessRequest
			status  int
			message string
		}{
			{what: placements("get", "a", "p"), status: http.StatusOK},
			{placements("get", "b", "p"), http.StatusForbidden, `"alice" may not get placements.cluster.example "p" in namespace "b": bind it there to a Role with the verb "get" for placements.cluster.example`},
			{placements("get", "a", "q"), http.StatusForbidden, `"q"`},
			{placements("create", "a", ""), http.StatusForbidden, `"alice" may not create placements.cluster.example in namespace "a"`},
			{what: AccessRequest{}, status: http.StatusOK},
		} {
			answer := ask(t, guard, "Bearer good", tc.what)
			if answer.Status != tc.status || !strings.Contains(answer.Message, tc.message) {
				t.Errorf("%s: got %d %q, want %d %q", tc.what, answer.Status, answer.Message, tc.status, tc.message)
			}
		}
		if answer := ask(t, guard, "Bearer bad", AccessRequest{}); answer.Status != http.StatusUnauthorized {
			t.Errorf("somebody unknown: got %d", answer.Status)
		}
	}
	if api.asked != 6 {
		t.Errorf("asked %d times, want once for each thing", api.asked)
	}
}
