// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/operators/clustermanager/allowed"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/operators/clustermanager/status"
)

// rightsRetry is how often the operator looks what it may do where it runs, and
// how soon it is back if that is too little: roles of others are not watched.
const rightsRetry = 30 * time.Second

// rightsReview remembers what the operator may do where it runs.
type rightsReview struct {
	client client.Writer
	clock  clock.PassiveClock

	mu    sync.Mutex
	held  rights.Rights
	until time.Time
}

func (r *rightsReview) currentRights(ctx context.Context) (rights.Rights, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock.Now(); !now.Before(r.until) {
		held, err := rights.ReviewRights(ctx, r.client)
		if err != nil {
			return rights.Rights{}, err
		}
		r.held, r.until = held, now.Add(rightsRetry)
	}
	return r.held, nil
}

// permissionPhases has the phases that find out what the operator may do.
type permissionPhases struct {
	*operatorClusters
	review  *rightsReview
	watches *install.KindWatches
}

// reviewHomeRights finds out what the operator may do where it runs, and begins to watch
// what it may. Without the right to watch what it installs it cannot go on: a
// cache whose watch is forbidden never answers.
func (w permissionPhases) reviewHomeRights(ctx context.Context, p *clusterManagerPass) error {
	held, err := w.review.currentRights(ctx)
	if err != nil {
		return err
	}
	p.home = held
	p.rights = held
	missing, err := w.watches.EnsureWatches(held)
	if err == nil && len(missing) > 0 {
		p.Object.Status.ObservedGeneration = p.Object.Generation
		return install.UnreachableError{
			Reason: operatorv1.ClusterManagerReasonPermissionsMissing, After: rightsRetry,
			Message: fmt.Sprintf("the operator lacks permissions it cannot work without; bind a ClusterRole with these rules to %s: %s", w.describeAccount(), rights.DescribeRules(missing)),
		}
	}
	return err
}

// decideFeatures finds out which features the hub can have. What the operator cannot
// grant is left away, and the condition FeaturesLimited says so.
func (w permissionPhases) decideFeatures(ctx context.Context, p *clusterManagerPass) error {
	operator := allowed.OperatorRights{Name: w.describeAccount(), Hub: p.home, Home: p.home, Hosted: p.hub.IsHosted(), Propagates: p.hub.PropagationEnabled()}
	if p.target != w.management {
		held, err := rights.ReviewRights(ctx, p.target.Client)
		if err != nil {
			return err
		}
		p.rights = held
		operator.Hub = held
		operator.Name = fmt.Sprintf("the user of Secret %q on %s, and to %s here", hubSecret(p), p.credential.Host(), w.describeAccount())
	}
	decision, err := allowed.DecideFeatures(operator, w.Rules)
	if err != nil {
		return fmt.Errorf("reading the rules of the components: %w", err)
	}
	if decision.HasLimits() {
		p.DueIn(rightsRetry)
	}
	p.features = decision
	p.hub.NoPush = decision.IsFeatureOff(allowed.Push)
	p.api = &status.AggregatedAPI{
		Wanted: p.hub.Registration.Enabled(features.AggregatedAPI), Forbidden: decision.IsFeatureOff(allowed.AggregatedAPI),
		Unaddressed: p.hub.IsHosted() && p.hub.APIServerAddress == "",
	}
	if p.api.Forbidden { // without its guard, anybody could forge what it stores
		p.hub.Registration = p.hub.Registration.WithoutGate(features.AggregatedAPI)
	}
	if decision.IsFeatureOff(allowed.Propagation) {
		p.hub.Placement = p.hub.Placement.WithoutGate(features.Propagation)
	}
	conditions.SetCondition(&p.Object.Status.Conditions, p.Object.Generation, decision.FeaturesLimitedCondition())
	return nil
}

// describeAccount is whom to give what the operator lacks.
func (w permissionPhases) describeAccount() string {
	return fmt.Sprintf("ServiceAccount %q", w.Options.Namespace+"/"+FieldOwner)
}

// grantableRules returns the rules of components without those that cannot be granted
// with the rights.
func grantableRules(rules manifests.ComponentRules, held rights.Rights) manifests.ComponentRules {
	return func(component string) (cluster, namespaced []rbacv1.PolicyRule, err error) {
		cluster, namespaced, err = rules(component)
		if err != nil {
			return nil, nil, err
		}
		cluster, _ = held.SplitGrantable(cluster)
		namespaced, _ = held.SplitGrantable(namespaced)
		return cluster, namespaced, nil
	}
}
