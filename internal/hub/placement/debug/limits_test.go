// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/server/guard"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// anybody is a reviewer that lets everybody do everything, unless it fails.
type anybody struct{ err error }

func (a anybody) Decide(*http.Request, guard.AccessRequest) (guard.AccessDecision, error) {
	return guard.AccessDecision{Status: http.StatusOK}, a.err
}

// indexer adds indexes to a client that is being built.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, name string, values client.IndexerFunc) error {
	i.WithIndex(object, name, values)
	return nil
}

func handlerFor(t *testing.T, reviews accessReviewer, objects ...client.Object) *handler {
	t.Helper()
	scheme, err := placement.NewPlacementScheme()
	expect.NoError(t, err)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	expect.NoError(t, placement.IndexDecisions(t.Context(), indexer{builder}))
	cached := builder.Build()
	return newHandler(reviews, cached, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), logr.Discard())
}

func respond(h http.Handler, r *http.Request) (int, string) {
	response := httptest.NewRecorder()
	h.ServeHTTP(response, r)
	return response.Code, response.Body.String()
}

func web() *clusterv1beta1.Placement {
	p := &clusterv1beta1.Placement{}
	p.Namespace, p.Name = "team-a", "web"
	return p
}

func TestRequestsBeyondTheLimitAreRefusedAtOnce(t *testing.T) {
	h := handlerFor(t, anybody{}, web())
	for range requestsMax {
		h.requests <- struct{}{}
	}
	get := func() (int, string) { return respond(h, httptest.NewRequest(http.MethodGet, Path+"team-a/web", nil)) }
	if status, body := get(); status != http.StatusServiceUnavailable || !strings.Contains(body, "try again") {
		t.Errorf("got %d %s, want %d", status, body, http.StatusServiceUnavailable)
	}
	<-h.requests
	if status, body := get(); status != http.StatusOK {
		t.Errorf("got %d %s with one request less, want %d", status, body, http.StatusOK)
	}
	if got := len(h.requests); got != requestsMax-1 {
		t.Errorf("%d requests are counted after the end of the last one, want %d", got, requestsMax-1)
	}
}

// strangers is a reviewer that knows one token, and of all others only learns in the end that
// nobody has them.
type strangers struct{ waiting, end chan struct{} }

func (s strangers) Decide(r *http.Request, _ guard.AccessRequest) (guard.AccessDecision, error) {
	if r.Header.Get("Authorization") == "Bearer known" {
		return guard.AccessDecision{Status: http.StatusOK}, nil
	}
	s.waiting <- struct{}{}
	<-s.end
	return guard.AccessDecision{Status: http.StatusUnauthorized, Message: "who are you"}, nil
}

// TestStrangersTakeNoPlaces has as many strangers wait for the review of their tokens as there
// are places for requests.
func TestStrangersTakeNoPlaces(t *testing.T) {
	reviews := strangers{waiting: make(chan struct{}), end: make(chan struct{})}
	h := handlerFor(t, reviews, web())
	var all sync.WaitGroup
	for i := range requestsMax {
		method, path := http.MethodGet, Path+"team-a/web"
		if i%2 == 0 {
			method, path = http.MethodPost, Path
		}
		all.Go(func() {
			if status, body := respond(h, httptest.NewRequest(method, path, nil)); status != http.StatusUnauthorized {
				t.Errorf("a stranger got %d %s, want %d", status, body, http.StatusUnauthorized)
			}
		})
		<-reviews.waiting
	}
	known := httptest.NewRequest(http.MethodGet, Path+"team-a/web", nil)
	known.Header.Set("Authorization", "Bearer known")
	if status, body := respond(h, known); status != http.StatusOK {
		t.Errorf("a known user got %d %s, want %d", status, body, http.StatusOK)
	}
	close(reviews.end)
	all.Wait()
}

func TestEvaluationsWaitForEachOther(t *testing.T) {
	h := handlerFor(t, anybody{}, web())
	for range evaluationsMax {
		h.evaluations <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request := httptest.NewRequest(http.MethodGet, Path+"team-a/web", nil).WithContext(ctx)
	if status, body := respond(h, request); status != http.StatusServiceUnavailable || !strings.Contains(body, "other Placements") {
		t.Errorf("got %d %s, want %d", status, body, http.StatusServiceUnavailable)
	}
}

func TestFailuresTellNothing(t *testing.T) {
	h := handlerFor(t, anybody{err: errors.New("dial tcp 10.0.0.1:6443: refused")}, web())
	status, body := respond(h, httptest.NewRequest(http.MethodGet, Path+"team-a/web", nil))
	if status != http.StatusServiceUnavailable || strings.Contains(body, "10.0.0.1") {
		t.Errorf("got %d %s, want %d without the cause", status, body, http.StatusServiceUnavailable)
	}
}

// unread fails the test if a body is read.
type unread struct{ *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.Error("the body of somebody unknown was read")
	return 0, io.EOF
}

// nobody is a reviewer that knows no user.
type nobody struct{}

func (nobody) Decide(*http.Request, guard.AccessRequest) (guard.AccessDecision, error) {
	return guard.AccessDecision{Status: http.StatusUnauthorized, Message: "who are you"}, nil
}

func TestBodiesOfUnknownUsersAreNotRead(t *testing.T) {
	h := handlerFor(t, nobody{}, web())
	for _, path := range []string{Path, Path + "team-a/web"} {
		if status, body := respond(h, httptest.NewRequest(http.MethodPost, path, unread{t})); status != http.StatusUnauthorized {
			t.Errorf("got %d %s, want %d", status, body, http.StatusUnauthorized)
		}
	}
}

func TestAMissingWeightIsTheDefinitionsDefault(t *testing.T) {
	h := handlerFor(t, anybody{})
	const body = `{"metadata": {"namespace": "team-a", "name": "web"}, "spec": {"prioritizerPolicy": {"mode": "Exact", "configurations": [
		{"scoreCoordinate": {"builtIn": "Steady"}},
		{"scoreCoordinate": {"builtIn": "Balance"}, "weight": 0},
		{"scoreCoordinate": {"builtIn": "ResourceAllocatableCPU"}, "weight": -3}]}}}`
	request := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
	p, err := h.readPostedPlacement(httptest.NewRecorder(), request, client.ObjectKey{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int32{1, 0, -3} {
		if got := p.Spec.PrioritizerPolicy.Configurations[i].Weight; got != want {
			t.Errorf("weight %d is %d, want %d", i, got, want)
		}
	}
}

// creators is a reviewer that lets everybody create, and get only if mayGet.
type creators struct{ mayGet bool }

func (c creators) Decide(_ *http.Request, what guard.AccessRequest) (guard.AccessDecision, error) {
	if what.Resource != nil && what.Resource.Verb == "get" && !c.mayGet {
		return guard.AccessDecision{Status: http.StatusForbidden, Message: "no"}, nil
	}
	return guard.AccessDecision{Status: http.StatusOK}, nil
}

func TestPresentDecisionsAreForThoseWhoMayGetThem(t *testing.T) {
	for mayGet, want := range map[bool]int64{true: 100, false: 0} {
		present := web()
		present.UID = "1"
		decision := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team-a", Name: "web-decision-1", Labels: map[string]string{clusterv1beta1.LabelPlacement: "web"},
			OwnerReferences: []metav1.OwnerReference{{Name: "web", UID: "1", Controller: new(true)}},
		}}
		decision.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: "member1"}}
		h := handlerFor(t, creators{mayGet}, present, decision,
			&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}},
			&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
				ClusterSelector: clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{}},
			}},
			&clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "all"}})
		// A UID in the body is nobody's proof.
		request := httptest.NewRequest(http.MethodPost, Path+"team-a/web", strings.NewReader(`{"metadata": {"uid": "1"}}`))
		answer, err := h.answerRequest(httptest.NewRecorder(), request)
		if err != nil {
			t.Fatal(err)
		}
		if got := answer.Prioritized[1]; got.Name != "Steady" || got.Scores["member1"] != want {
			t.Errorf("with the right to get %t, the scores are %+v, want %d of Steady", mayGet, answer.Prioritized, want)
		}
	}
}
