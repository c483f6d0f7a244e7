// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// server answers reviews; nothing else is asked of it.
type server struct {
	client.Writer
	mu    sync.Mutex
	rules []authorizationv1.ResourceRule
	err   error
}

// answer changes what the server answers.
func (s *server) answer(rules []authorizationv1.ResourceRule, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules, s.err = rules, err
}

func (s *server) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if review, ok := object.(*authorizationv1.SelfSubjectRulesReview); ok {
		review.Status.ResourceRules = s.rules
	}
	return s.err
}

func mayGetPods() []authorizationv1.ResourceRule {
	return []authorizationv1.ResourceRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
}

func TestReview(t *testing.T) {
	getPods, getSecrets := rule([]string{""}, []string{"pods"}, []string{"get"}), rule([]string{""}, []string{"secrets"}, []string{"get"})
	held, err := ReviewRights(t.Context(), &server{rules: mayGetPods()})
	if err != nil || !held.AllowsRules(getPods) || held.AllowsRules(getSecrets) {
		t.Errorf("what is answered is %+v: %v", held, err)
	}
	held, err = ReviewRights(t.Context(), &server{err: apierrors.NewForbidden(schema.GroupResource{}, "", nil)})
	if err != nil || !held.AllowsRules(getSecrets) {
		t.Errorf("one that may not ask has to try: %+v, %v", held, err)
	}
	if _, err = ReviewRights(t.Context(), &server{err: errors.New("down")}); err == nil {
		t.Error("no answer counts as one")
	}
}

func TestAGuardEndsTheProgramWhenItsRightsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted := []rbacv1.PolicyRule{rule([]string{""}, []string{"pods"}, []string{"get"}), rule([]string{""}, []string{"secrets"}, []string{"get"})}
		s := &server{rules: mayGetPods()}
		held, err := ReviewRights(t.Context(), s)
		expect.NoError(t, err)
		ended := make(chan error, 1)
		guard := &ChangeWatcher{Client: s, Wanted: wanted, Lacked: held.MissingRules(wanted...), Every: time.Minute}
		go func() { ended <- guard.Start(t.Context()) }()
		stays := func(why string) {
			t.Helper()
			time.Sleep(time.Hour)
			synctest.Wait()
			select {
			case err := <-ended:
				t.Fatalf("%s: it ended with %v", why, err)
			default:
			}
		}
		stays("nothing changed")
		s.answer(nil, errors.New("down"))
		stays("there is no answer")
		s.answer(append(mayGetPods(), authorizationv1.ResourceRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get"}}), nil)
		stays("what it never wanted does not matter")
		s.answer(nil, nil)
		if err := <-ended; !errors.Is(err, ErrChanged) {
			t.Errorf("it lost a right, and ended with %v", err)
		}
	})
}
