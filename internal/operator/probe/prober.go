// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

const (
	// requestTimeout is how long one request may take.
	requestTimeout = 5 * time.Second
	// checkTimeout is how long the check of one credential may take.
	checkTimeout = 20 * time.Second
	// missingShownMax is how many missing permissions a message names.
	missingShownMax = 5
)

// SelfReviewer is the part of the API that is asked.
type SelfReviewer interface {
	authorizationclient.SelfSubjectRulesReviewsGetter
	authorizationclient.SelfSubjectAccessReviewsGetter
}

// Prober asks API servers what a credential may do there.
type Prober struct {
	// Connect returns the API for a configuration. Defaults to client-go's.
	Connect func(*rest.Config) (SelfReviewer, error)
}

// ProbeBootstrap checks a credential to join with.
func (p Prober) ProbeBootstrap(ctx context.Context, credential Credential) CheckOutcome {
	if credential.Config == nil {
		return credential.Problem
	}
	return p.reviewPermissions(ctx, theHub(credential.Host()), credential.Config, metav1.NamespaceDefault, bootstrapPermissions())
}

// ProbeHub checks the credential of the agent of the cluster.
func (p Prober) ProbeHub(ctx context.Context, credential Credential, cluster string) CheckOutcome {
	if credential.Config == nil {
		return credential.Problem
	}
	return p.reviewPermissions(ctx, theHub(credential.Host()), credential.Config, cluster, hubPermissions(cluster))
}

// ProbeMember checks the credential by which the operator installs what agents need
// on a managed cluster, with their accounts in the namespace there.
func (p Prober) ProbeMember(ctx context.Context, credential Credential, namespace string) CheckOutcome {
	if credential.Config == nil {
		return credential.Problem
	}
	return p.reviewPermissions(ctx, theMember(credential.Host()), credential.Config, namespace, memberPermissions(namespace))
}

// ProbeHostedHub checks the credential by which the operator installs a hub that it
// does not run on, with the accounts of its components in the namespace there.
func (p Prober) ProbeHostedHub(ctx context.Context, credential Credential, namespace string) CheckOutcome {
	if credential.Config == nil {
		return credential.Problem
	}
	return p.reviewPermissions(ctx, theHostedHub(credential.Host()), credential.Config, namespace, hostedHubPermissions(namespace))
}

// reviewPermissions asks for all permissions at once, by the rules that hold for the
// credential: one request instead of twenty, which counts on a hub with
// thousands of members. A server may not know all rules, so it is asked again
// for each permission that they do not give.
func (p Prober) reviewPermissions(ctx context.Context, who probedServer, config *rest.Config, namespace string, wanted []permission) CheckOutcome {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	hub, err := p.newReviewClient(config)
	if err != nil {
		return CheckOutcome{KubeconfigMalformed, fmt.Sprintf("the kubeconfig for %s cannot be used: %v", config.Host, err)}
	}
	review, err := hub.SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	if err != nil {
		return classifyError(who, err)
	}
	var missing []string
	for _, want := range wanted {
		if rulesAllow(review.Status.ResourceRules, want) {
			continue
		}
		allowed := false
		if review.Status.Incomplete {
			if allowed, err = reviewAccess(ctx, hub, want); err != nil {
				return classifyError(who, err)
			}
		}
		if !allowed {
			missing = append(missing, describePermission(want))
		}
	}
	if len(missing) > 0 {
		return CheckOutcome{Forbidden, fmt.Sprintf("%s does not allow: %s", who, joinMissing(missing))}
	}
	return CheckOutcome{Functional, fmt.Sprintf("%s grants all required permissions", who)}
}

func (p Prober) newReviewClient(config *rest.Config) (SelfReviewer, error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestTimeout
	config.QPS = -1 // a check is at most two dozen requests, one after the other
	if p.Connect != nil {
		return p.Connect(config)
	}
	return authorizationclient.NewForConfig(config)
}

func reviewAccess(ctx context.Context, hub SelfReviewer, want permission) (bool, error) {
	review, err := hub.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &want},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

func joinMissing(missing []string) string {
	if more := len(missing) - missingShownMax; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(missing[:missingShownMax], "; "), more)
	}
	return strings.Join(missing, "; ")
}
