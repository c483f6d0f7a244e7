// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/probe"
)

const (
	// hubRetry is how often a hub is tried that could not be worked on. A change of
	// the secret that leads there is seen at once.
	hubRetry = 30 * time.Second
	// hubResync is how often it is looked, in mode Hosted, whether all that was
	// installed on the hub is as it should be, whether tokens have to be renewed
	// and whether there are Push clusters: nothing is watched there. Tokens live
	// ten minutes at the least, and are renewed when half of that is over.
	hubResync = time.Minute
)

// connect finds the hub: the operator's own cluster, or in mode Hosted the one
// that the administrator's secret leads to.
func (c *Controller) connect(ctx context.Context, p *pass) error {
	if !p.hub.Hosted() {
		p.site = c.home
		return nil
	}
	outcome, err := c.reach(ctx, p)
	if err != nil {
		return err
	}
	if outcome.Verdict != probe.Functional {
		// What runs goes on with its own credentials, so it is still told how it is.
		if err := c.look(ctx, p); err != nil {
			return err
		}
		return unreachedError{hubReason(outcome.Verdict), outcome.Message}
	}
	p.dueIn(hubResync)
	if err := c.freeHub(ctx, p); err != nil {
		return err
	}
	// Before the first effect there, so that whatever is installed is also removed.
	return c.changeMeta(ctx, p, func(cm *operatorv1.ClusterManager) bool {
		return controllerutil.AddFinalizer(cm, operatorv1.FinalizerClusterManagerHostedCleanup)
	})
}

// reach asks the hub what the credential in the secret may do there. The pass has
// its site if it answers, whatever it allows.
func (c *Controller) reach(ctx context.Context, p *pass) (probe.Outcome, error) {
	key := hubSecret(p)
	secret, err := probe.Secret(ctx, c.reader, key)
	if err != nil {
		return probe.Outcome{}, err
	}
	credential := probe.Inspect(secret, key.String(), nil)
	outcome := c.prober.HostedHub(ctx, credential, p.hub.Namespace())
	if outcome.Verdict != probe.Functional && outcome.Verdict != probe.Forbidden {
		return outcome, nil
	}
	there, err := c.hubs.Get(p.cm.Name, credential)
	if err != nil {
		return probe.Outcome{}, err
	}
	p.credential = credential
	p.site = newSite(there, there)
	p.hub.HubPort = credential.Port()
	return outcome, nil
}

// hubSecret is the secret with the administrator's kubeconfig of the hub.
func hubSecret(p *pass) types.NamespacedName {
	return types.NamespacedName{Namespace: p.hub.Namespace(), Name: operatorv1.ExternalHubKubeConfigSecret}
}

// hubReason returns the reason of the condition Applied for why the hub cannot be
// worked on.
func hubReason(verdict probe.Verdict) string {
	switch verdict {
	case probe.SecretMissing, probe.KubeconfigMissing:
		return operatorv1.ClusterManagerReasonExternalHubKubeConfigMissing
	case probe.Unreachable:
		return operatorv1.ClusterManagerReasonHubUnreachable
	case probe.Untrusted:
		return operatorv1.ClusterManagerReasonHubUntrusted
	case probe.Unauthorized:
		return operatorv1.ClusterManagerReasonHubUnauthorized
	case probe.Forbidden:
		return operatorv1.ClusterManagerReasonHubForbidden
	default:
		return operatorv1.ClusterManagerReasonExternalHubKubeConfigMalformed
	}
}
