// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MissingRights returns those of the rights that the user of the client does not have.
func MissingRights(ctx context.Context, c client.Client, rights ...authorizationv1.ResourceAttributes) ([]authorizationv1.ResourceAttributes, error) {
	var missing []authorizationv1.ResourceAttributes
	for _, right := range rights {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
		if err := c.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("find out whether you may %s: %w", DescribeRight(right), err)
		}
		if !review.Status.Allowed {
			missing = append(missing, right)
		}
	}
	return missing, nil
}

// DescribeRight puts a right into words, as an administrator has to grant it.
func DescribeRight(right authorizationv1.ResourceAttributes) string {
	resource := right.Resource
	if right.Subresource != "" {
		resource += "/" + right.Subresource
	}
	text := right.Verb + " " + strings.TrimSuffix(resource+"."+right.Group, ".")
	if right.Name != "" {
		text += fmt.Sprintf(" %q", right.Name)
	}
	if right.Namespace != "" {
		text += fmt.Sprintf(" in namespace %q", right.Namespace)
	}
	return text
}
