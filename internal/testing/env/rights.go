// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	rightsPause    = 20 * time.Millisecond
	rightsPatience = time.Minute
)

// ServiceAccountReview is the review of what a service account may do.
func ServiceAccountReview(namespace, name string) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{
		User:   fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}
}

// UserReview is the review of what a user may do.
func UserReview(name string) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{User: name}
}

// SelfReview is the review of what a client itself may do.
func SelfReview() authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{}
}

// WaitAllowed waits until the API server allows what the first part of the rule
// says in the namespace, or with want false, until it does not any more. It
// learns of roles and bindings some time after they are written, so a test that
// relies on them has to wait.
func WaitAllowed(
	ctx context.Context, t testing.TB, config *rest.Config, who authorizationv1.SubjectAccessReviewSpec, namespace string, rule rbacv1.PolicyRule, want bool,
) {
	t.Helper()
	allowed := reviewRule(t, config, who, namespace, rule)
	err := wait.PollUntilContextTimeout(ctx, rightsPause, rightsPatience, true, func(ctx context.Context) (bool, error) {
		got, err := allowed(ctx)
		return got == want, err
	})
	if err != nil {
		t.Errorf("waiting until %q may do what %v says (%t): %v", who.User, rule, want, err)
	}
}

// NeverAllowed expects that the API server does not allow what the first part of the rule says, at once.
func NeverAllowed(t testing.TB, config *rest.Config, who authorizationv1.SubjectAccessReviewSpec, namespace string, rule rbacv1.PolicyRule) {
	t.Helper()
	if allowed, err := reviewRule(t, config, who, namespace, rule)(t.Context()); err != nil || allowed {
		t.Errorf("%q may do what %v says in namespace %q: %t, %v; want that it may not", who.User, rule, namespace, allowed, err)
	}
}

// reviewRule returns what asks the API server about the first part of a rule.
func reviewRule(
	t testing.TB, config *rest.Config, who authorizationv1.SubjectAccessReviewSpec, namespace string, rule rbacv1.PolicyRule,
) func(context.Context) (bool, error) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if len(rule.NonResourceURLs) > 0 {
		who.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: rule.NonResourceURLs[0], Verb: rule.Verbs[0]}
	} else {
		resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
		who.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Verb: rule.Verbs[0], Namespace: namespace,
		}
		if len(rule.ResourceNames) > 0 {
			who.ResourceAttributes.Name = rule.ResourceNames[0]
		}
	}
	if who.User == "" && len(who.Groups) == 0 {
		return func(ctx context.Context) (bool, error) {
			review, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: who.ResourceAttributes, NonResourceAttributes: who.NonResourceAttributes},
			}, metav1.CreateOptions{})
			return err == nil && review.Status.Allowed, err
		}
	}
	return func(ctx context.Context) (bool, error) {
		review, err := clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: who}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}
}
