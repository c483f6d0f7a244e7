// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/probe"
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

// connectMember finds the cluster that the agents work on: the operator's own, or with
// hosted agents the one that their administrator's secret leads to.
func (i *agentInstallation) connectMember(ctx context.Context, p *klusterletPass) error {
	if !manifests.IsHostedMode(p.Object) {
		p.member = i.management
		return nil
	}
	outcome, err := i.probeMemberCluster(ctx, p)
	if err != nil {
		return err
	}
	if outcome.Verdict != probe.Functional {
		return i.reportUnpreparedMember(ctx, p, outcome)
	}
	p.DueIn(memberResync)
	p.setCondition(metav1.Condition{
		Type: operatorv1.KlusterletConditionReadyToApply, Status: metav1.ConditionTrue,
		Reason: operatorv1.KlusterletReasonPrepared, Message: outcome.Message,
	})
	// Before the first effect there, so that whatever is installed is also removed.
	return p.ChangeMeta(ctx, i.Client, func(k client.Object) bool {
		return controllerutil.AddFinalizer(k, operatorv1.FinalizerKlusterletHostedCleanup)
	})
}

// probeMemberCluster asks the managed cluster what its credential may do. The pass has the
// member if it answers, whatever it allows.
func (c *operatorClusters) probeMemberCluster(ctx context.Context, p *klusterletPass) (probe.CheckOutcome, error) {
	// That of hosted agents, even if the mode was changed meanwhile.
	key := types.NamespacedName{Namespace: p.Object.Name, Name: operatorv1.ExternalManagedKubeConfigSecret}
	secret, err := probe.ReadSecret(ctx, c.Secrets, key)
	if err != nil {
		return probe.CheckOutcome{}, err
	}
	credential := probe.InspectSecret(secret, key.String(), nil)
	outcome := c.prober.ProbeMember(ctx, credential, manifests.MemberNamespace(p.Object))
	if outcome.Verdict != probe.Functional && outcome.Verdict != probe.Forbidden {
		return outcome, nil
	}
	p.memberCredential = credential
	there, err := c.members.ClientFor(p.Object.Name, credential)
	if err != nil {
		return probe.CheckOutcome{}, err
	}
	p.member = install.NewTarget(there, install.TargetReaders{Live: there, Secrets: there}, FieldOwner)
	return outcome, nil
}

// reportUnpreparedMember says why nothing can be installed. Agents that run already go on
// with their own credentials, so their state is still reported.
func (i *agentInstallation) reportUnpreparedMember(ctx context.Context, p *klusterletPass, outcome probe.CheckOutcome) error {
	p.handshake.Member = outcome
	p.setCondition(metav1.Condition{
		Type: operatorv1.KlusterletConditionReadyToApply, Status: metav1.ConditionFalse,
		Reason: operatorv1.KlusterletReasonPrepareFailed, Message: outcome.Message,
	})
	if err := i.inspectHubCredentials(ctx, p); err != nil {
		return err
	}
	if err := i.observer.updateAgentConditions(ctx, p); err != nil {
		return err
	}
	return install.UnreachableError{Message: "cannot install on the managed cluster: " + outcome.Message, After: memberRetry}
}

// memberGoneAfter is how long the removal of hosted agents waits for a managed
// cluster that cannot be reached. What is installed there is then left behind.
const memberGoneAfter = 5 * time.Minute

// reasonLeftBehind is the reason of the event that something is left on a managed
// cluster that cannot be reached.
const reasonLeftBehind = "ManagedResourcesLeftBehind"

// reachMember finds the cluster that the agents work on, to remove what is
// installed there. There is none in the pass if it is given up.
func (r *agentRemoval) reachMember(ctx context.Context, p *klusterletPass) error {
	if !controllerutil.ContainsFinalizer(p.Object, operatorv1.FinalizerKlusterletHostedCleanup) {
		p.member = r.management // nothing is installed on another cluster
		return nil
	}
	outcome, err := r.probeMemberCluster(ctx, p)
	if err != nil {
		return err
	}
	eviction := install.Eviction{
		Cluster: "managed cluster", Secret: p.Object.Name + "/" + operatorv1.ExternalManagedKubeConfigSecret,
		Annotation: operatorv1.AnnotationManagedResourcesEvictionTimestamp,
		After:      memberGoneAfter, Retry: memberRetry,
	}
	if p.member != nil {
		return p.EndEviction(ctx, r.Client, eviction)
	}
	if err := p.EvictUnreachable(ctx, r.Client, eviction, outcome); err != nil {
		return err
	}
	install.RecordRemovalWarning(r.Events, p.Object, reasonLeftBehind, "objects on the managed cluster are left behind: "+outcome.Message)
	return nil
}

// releaseMember remembers that nothing of the Klusterlet is left on the managed
// cluster, or that it is given up, so its secret is no longer needed.
func (r *agentRemoval) releaseMember(ctx context.Context, p *klusterletPass) error {
	r.members.ForgetClient(p.Object.Name)
	return p.ChangeMeta(ctx, r.Client, func(k client.Object) bool {
		return controllerutil.RemoveFinalizer(k, operatorv1.FinalizerKlusterletHostedCleanup)
	})
}
