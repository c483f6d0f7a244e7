// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access reviews whether a user may do something, for programs that
// decide for users what these may do by way of them.
package access

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

const (
	// RequestTimeout bounds all questions to the API server that one admission
	// request needs. The API server gives up the request itself after 10 s and
	// would then tell the user nothing about the cause.
	RequestTimeout = 8 * time.Second
	// ReviewTimeout bounds one question.
	ReviewTimeout = 4 * time.Second
)

// Reviewer reports whether a user may do something. The reason is what the
// API server's authorizer says about a refusal; it may be empty.
type Reviewer interface {
	IsAllowed(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (allowed bool, reason string, err error)
}

// ReviewerFunc makes a function a Reviewer.
type ReviewerFunc func(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, string, error)

// IsAllowed calls the function.
func (f ReviewerFunc) IsAllowed(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, string, error) {
	return f(ctx, user, what)
}

// NewAccessReviewer returns a Reviewer that creates a SubjectAccessReview for each question.
func NewAccessReviewer(reviews authorizationclient.SubjectAccessReviewInterface) Reviewer {
	return ReviewerFunc(func(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, string, error) {
		ctx, cancel := context.WithTimeout(ctx, ReviewTimeout)
		defer cancel()
		review := &authorizationv1.SubjectAccessReview{Spec: subjectReviewSpec(user, what)}
		answer, err := reviews.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, "", fmt.Errorf("reviewing whether %q may %s: %w", user.Username, DescribePermission(what), err)
		}
		return answer.Status.Allowed && !answer.Status.Denied, answer.Status.Reason, nil
	})
}

// subjectReviewSpec asks for the user as the API server knows it: groups and extra decide
// as much as the name does.
func subjectReviewSpec(user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReviewSpec {
	s := authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &what,
		User:               user.Username,
		UID:                user.UID,
		Groups:             user.Groups,
	}
	if len(user.Extra) > 0 {
		s.Extra = make(map[string]authorizationv1.ExtraValue, len(user.Extra))
		for name, values := range user.Extra {
			s.Extra[name] = authorizationv1.ExtraValue(values)
		}
	}
	return s
}

// DescribePermission puts a permission into words, as an administrator has to grant it.
func DescribePermission(what authorizationv1.ResourceAttributes) string {
	resource := what.Resource
	if what.Subresource != "" {
		resource += "/" + what.Subresource
	}
	text := fmt.Sprintf("%s %s.%s %q", what.Verb, resource, what.Group, what.Name)
	if what.Namespace != "" {
		text += fmt.Sprintf(" in namespace %q", what.Namespace)
	}
	return text
}
