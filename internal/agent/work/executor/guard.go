// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

// GuardOptions of a PermissionGuard.
type GuardOptions struct {
	// Config and Client reach the member with the rights of the agent.
	Config *rest.Config
	Client *http.Client
	Clock  clock.PassiveClock
	// Parallel is how many questions are under way at a time. It has to be more
	// than zero.
	Parallel int
	// Keep makes the guard keep decisions, for at most keepYes or keepNo and
	// until a role or a binding changes (feature gate ExecutorValidatingCaches).
	Keep bool
	// Go runs the watches that tell of roles and bindings. Needed with Keep.
	Go func(run func())
	// Changed is called when permissions may have changed. It must not block.
	// Needed with Keep.
	Changed func()
}

// PermissionGuard knows what the executors of one member may do. It is safe for
// concurrent use.
type PermissionGuard struct {
	reviewer Reviewer
	config   *rest.Config
	client   *http.Client
	own      metadata.Interface
	clock    clock.PassiveClock
}

// NewPermissionGuard returns the guard of a member. What it keeps it watches until ctx ends.
func NewPermissionGuard(ctx context.Context, options GuardOptions) (*PermissionGuard, error) {
	reviews, err := authorizationclient.NewForConfigAndClient(options.Config, options.Client)
	if err != nil {
		return nil, fmt.Errorf("making a client for reviews of permissions: %w", err)
	}
	own, err := metadata.NewForConfigAndClient(options.Config, options.Client)
	if err != nil {
		return nil, fmt.Errorf("making a metadata client: %w", err)
	}
	g := &PermissionGuard{
		reviewer: &apiReviewer{reviews: reviews.SubjectAccessReviews(), slots: make(chan struct{}, options.Parallel)},
		config:   options.Config, client: options.Client, own: own, clock: options.Clock,
	}
	if options.Keep {
		kept := newDecisionCache(g.reviewer, options.Clock, keptMax)
		kept.changed = options.Changed
		for _, resource := range permissionResources() {
			options.Go(func() { kept.followPermissions(ctx, own, resource) })
		}
		g.reviewer = kept
	}
	return g, nil
}

// NewSession returns a new session for the subject.
func (g *PermissionGuard) NewSession(subject Subject) *ReviewSession {
	return &ReviewSession{guard: g, subject: subject, answers: map[Access]*reviewAnswer{}}
}

// isAccountMissing reports whether it is sure that there is no such ServiceAccount.
func (g *PermissionGuard) isAccountMissing(ctx context.Context, subject Subject) bool {
	ctx, cancel := context.WithTimeout(ctx, apply.CallTimeout)
	defer cancel()
	accounts := g.own.Resource(serviceAccounts()).Namespace(subject.Namespace)
	_, err := accounts.Get(ctx, subject.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}
