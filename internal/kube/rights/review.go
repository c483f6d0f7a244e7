// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nowhere is a namespace that cannot exist: what is allowed there is allowed
// in all namespaces.
const nowhere = "-"

// ReviewRights asks the API server what the account of the client may do in the whole
// cluster. An account that may not even ask is taken to have all Rights: what it
// may not do it is told when it tries.
func ReviewRights(ctx context.Context, c client.Writer) (Rights, error) {
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: nowhere}}
	err := c.Create(ctx, review)
	if apierrors.IsForbidden(err) {
		return AllRights(), nil
	}
	if err != nil {
		return Rights{}, fmt.Errorf("asking what this account may do: %w", err)
	}
	// The answer may be incomplete, if others than RBAC have a say. What may be
	// granted, however, only the rules of RBAC decide.
	var held Rights
	for _, rule := range review.Status.ResourceRules {
		held.rules = append(held.rules, rbacv1.PolicyRule{
			APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames, Verbs: rule.Verbs,
		})
	}
	for _, rule := range review.Status.NonResourceRules {
		held.rules = append(held.rules, rbacv1.PolicyRule{NonResourceURLs: rule.NonResourceURLs, Verbs: rule.Verbs})
	}
	return held, nil
}

// ErrChanged is why a program ends whose account may do more or less than when
// it started. The one that is started in its place does what it may.
var ErrChanged = errors.New("what this account may do has changed")

// ChangeWatcher ends a program, as it is a runnable of its manager, once its account
// lacks other rights than at its start. Programs choose what to watch when they
// start: a cache whose watch is forbidden never fills.
type ChangeWatcher struct {
	Client client.Writer
	// Wanted are the rules that matter, and Lacked what was missing at the start.
	Wanted, Lacked []rbacv1.PolicyRule
	// Every is the time between two looks while a rule is missing; when none is,
	// the time is ten times as long. The first looks come sooner: at its start a
	// program may be ahead of the role that it was given.
	Every time.Duration
}

// restFactor is how many times as rare the looks of a program are that lacks
// nothing: that it loses a right is an accident.
const restFactor = 10

// firstLook is when a ChangeWatcher looks first, and the time between two looks doubles
// from there.
const firstLook = time.Second

// NeedLeaderElection lets replicas that wait for the lead look, too.
func (g *ChangeWatcher) NeedLeaderElection() bool { return false }

// Start looks until ctx ends, or returns ErrChanged.
func (g *ChangeWatcher) Start(ctx context.Context) error {
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	longest := g.Every
	if len(g.Lacked) == 0 {
		longest *= restFactor
	}
	for pause := firstLook; ; pause = min(2*pause, longest) {
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		held, err := ReviewRights(ctx, g.Client)
		if err != nil {
			continue // whether the API server answers is for others to tell
		}
		before := DescribeRules(g.Lacked)
		now := DescribeRules(held.MissingRules(g.Wanted...))
		if before != now {
			return fmt.Errorf("%w: it lacked %q and lacks %q now", ErrChanged, before, now)
		}
	}
}
