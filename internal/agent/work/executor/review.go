// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

// Access is one thing that a subject may do or not.
type Access struct {
	Verb            string
	Group, Resource string
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	// Name is empty for all names.
	Name string
}

// Reviewer reports whether a subject may do something. After an error it is not
// known, and must not be done. It is safe for concurrent use.
type Reviewer interface {
	May(ctx context.Context, subject Subject, access Access) (bool, error)
}

// apiReviewer asks the API server. It bounds how many questions are under way.
type apiReviewer struct {
	reviews authorizationclient.SubjectAccessReviewInterface
	slots   chan struct{}
}

// May is part of Reviewer.
func (s *apiReviewer) May(ctx context.Context, subject Subject, access Access) (bool, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return false, fmt.Errorf("waiting to review the permissions of %q: %w", subject.UserName(), ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, apply.CallTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   subject.UserName(),
		Groups: subject.GroupNames(),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: access.Verb, Group: access.Group, Resource: access.Resource,
			Namespace: access.Namespace, Name: access.Name,
		},
	}}
	answer, err := s.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("reviewing the permissions of %q: %w", subject.UserName(), err)
	}
	return answer.Status.Allowed && !answer.Status.Denied, nil
}
