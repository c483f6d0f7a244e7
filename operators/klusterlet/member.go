// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

const (
	// memberRetry is how often a managed cluster is tried that could not be worked
	// on. A change of the secret that leads there is seen at once.
	memberRetry = 30 * time.Second
	// memberResync is how often it is looked whether all that was installed on a
	// managed cluster is as it should be, and whether tokens have to be renewed:
	// nothing is watched there. Tokens live ten minutes at the least, and are
	// renewed when half of that is over.
	memberResync = 3 * time.Minute
)

// errUnprepared ends a pass that could not work on the managed cluster. It is
// tried again at intervals, not more and more seldom.
var errUnprepared = errors.New("the managed cluster cannot be worked on")

// connect finds the cluster that the agents work on: the operator's own, or with
// hosted agents the one that their administrator's secret leads to.
func (c *Controller) connect(ctx context.Context, p *pass) error {
	if !manifests.Hosted(p.klusterlet) {
		p.member = c.home
		return nil
	}
	outcome, err := c.reach(ctx, p)
	if err != nil {
		return err
	}
	if outcome.Verdict != probe.Functional {
		return c.unprepared(ctx, p, outcome)
	}
	p.set(metav1.Condition{
		Type: operatorv1.KlusterletConditionReadyToApply, Status: metav1.ConditionTrue,
		Reason: operatorv1.KlusterletReasonPrepared, Message: outcome.Message,
	})
	// Before the first effect there, so that whatever is installed is also removed.
	return c.changeMeta(ctx, p, func(k *operatorv1.Klusterlet) bool {
		return controllerutil.AddFinalizer(k, operatorv1.FinalizerKlusterletHostedCleanup)
	})
}

// reach asks the managed cluster what its credential may do. The pass has its
// site if it answers, whatever it allows.
func (c *Controller) reach(ctx context.Context, p *pass) (probe.Outcome, error) {
	// That of hosted agents, even if the mode was changed meanwhile.
	key := types.NamespacedName{Namespace: p.klusterlet.Name, Name: operatorv1.ExternalManagedKubeConfigSecret}
	secret, err := probe.Secret(ctx, c.Secrets, key)
	if err != nil {
		return probe.Outcome{}, err
	}
	credential := probe.Inspect(secret, key.String(), nil)
	outcome := c.prober.Member(ctx, credential, manifests.MemberNamespace(p.klusterlet))
	if outcome.Verdict != probe.Functional && outcome.Verdict != probe.Forbidden {
		return outcome, nil
	}
	p.memberCredential = credential
	there, err := c.members.Get(p.klusterlet.Name, credential)
	if err != nil {
		return probe.Outcome{}, err
	}
	p.member = newSite(there, there, there)
	return outcome, nil
}

// unprepared says why nothing can be installed. Agents that run already go on
// with their own credentials, so it is still told how they are.
func (c *Controller) unprepared(ctx context.Context, p *pass, outcome probe.Outcome) error {
	p.handshake.member = outcome
	p.set(metav1.Condition{
		Type: operatorv1.KlusterletConditionReadyToApply, Status: metav1.ConditionFalse,
		Reason: operatorv1.KlusterletReasonPrepareFailed, Message: outcome.Message,
	})
	if err := c.credentials(ctx, p); err != nil {
		return err
	}
	if err := c.look(ctx, p); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", errUnprepared, outcome.Message)
}

// changeMeta changes the metadata of the Klusterlet at once, and nothing else of
// it: what the pass has found out so far is written when it ends.
func (c *Controller) changeMeta(ctx context.Context, p *pass, change func(*operatorv1.Klusterlet) bool) error {
	after := p.before.DeepCopy()
	if !change(after) {
		return nil
	}
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the finalizers and annotations of Klusterlet %q: %w", after.Name, err)
	}
	p.klusterlet.ObjectMeta = *after.ObjectMeta.DeepCopy()
	p.before = after
	return nil
}
