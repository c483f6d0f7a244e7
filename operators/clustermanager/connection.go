// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

const (
	// hubRetry is how often a hub is tried that could not be worked on. A change of
	// the secret that leads there is seen at once.
	hubRetry = 30 * time.Second
	// hubResync is how often it is looked, in mode Hosted, whether all that was
	// installed on the hub is as it should be and whether tokens have to be renewed:
	// nothing is watched there but ClusterConnections. Tokens live ten minutes at the
	// least, and are renewed when half of that is over.
	hubResync = time.Minute
)

// connectHub finds the hub: the operator's own cluster, or in mode Hosted the one
// that the administrator's secret leads to.
func (w *hubPreparation) connectHub(ctx context.Context, p *clusterManagerPass) error {
	if !p.hub.IsHosted() {
		p.target = w.management
		return nil
	}
	outcome, err := w.probeHubCluster(ctx, p)
	if err != nil {
		return err
	}
	if outcome.Verdict != probe.Functional {
		// What runs goes on with its own credentials, so its state is still reported.
		if err := w.observeRollouts(ctx, p); err != nil {
			return err
		}
		return install.UnreachableError{Reason: hubReason(outcome.Verdict), Message: outcome.Message, After: hubRetry}
	}
	p.DueIn(hubResync)
	if err := w.checkHubIsFree(ctx, p); err != nil {
		return err
	}
	// Before the first effect there, so that whatever is installed is also removed.
	return p.ChangeMeta(ctx, w.Client, func(cm client.Object) bool {
		return controllerutil.AddFinalizer(cm, operatorv1.FinalizerClusterManagerHostedCleanup)
	})
}

// probeHubCluster asks the hub what the credential in the secret may do there. The pass has
// its target if it answers, whatever it allows.
func (c *operatorClusters) probeHubCluster(ctx context.Context, p *clusterManagerPass) (probe.CheckOutcome, error) {
	key := hubSecret(p)
	secret, err := probe.ReadSecret(ctx, c.Reader, key)
	if err != nil {
		return probe.CheckOutcome{}, err
	}
	credential := probe.InspectSecret(secret, key.String(), nil)
	p.hub.APIServerAddress = apiServerAddress(p.Object, p.hub, credential)
	outcome := c.prober.ProbeHostedHub(ctx, credential, p.hub.Namespace())
	if outcome.Verdict != probe.Functional && outcome.Verdict != probe.Forbidden {
		return outcome, nil
	}
	there, err := c.hubs.ClientFor(p.Object.Name, credential)
	if err != nil {
		return probe.CheckOutcome{}, err
	}
	p.credential = credential
	p.target = install.NewTarget(there, install.TargetReaders{Live: there, Secrets: there}, FieldOwner)
	p.hub.HubPort = credential.Port()
	return outcome, nil
}

// apiServerAddress returns where the hub's API server reaches the aggregated one,
// or nothing. If it is itself a Service where the operator runs, its pods are
// there, too.
func apiServerAddress(cm *operatorv1.ClusterManager, h manifests.Hub, credential probe.Credential) string {
	if address := cm.Annotations[operatorv1.AnnotationAPIServerAddress]; address != "" {
		return address
	}
	server, err := url.Parse(credential.Host())
	if err != nil {
		return ""
	}
	if host := server.Hostname(); strings.HasSuffix(host, ".svc") || strings.Contains(host, ".svc.") {
		return h.HostedAPIServerAddress()
	}
	return ""
}

// hubSecret is the secret with the administrator's kubeconfig of the hub.
func hubSecret(p *clusterManagerPass) types.NamespacedName {
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

// hubGoneAfter is how long the removal of a hosted hub waits for a hub that cannot
// be reached. What is installed there is then left behind.
const hubGoneAfter = 5 * time.Minute

// reachHub finds the hub, to remove what is installed there. There is none in the
// pass if nothing is, or if it is given up.
func (r *hubRemoval) reachHub(ctx context.Context, p *clusterManagerPass) error {
	if !p.hub.IsHosted() {
		p.target = r.management
		return nil
	}
	if !controllerutil.ContainsFinalizer(p.Object, operatorv1.FinalizerClusterManagerHostedCleanup) {
		return nil
	}
	outcome, err := r.probeHubCluster(ctx, p)
	if err != nil {
		return err
	}
	eviction := install.Eviction{
		Cluster: "hub", Secret: hubSecret(p).String(),
		Annotation: operatorv1.AnnotationHubResourcesEvictionTimestamp,
		After:      hubGoneAfter, Retry: hubRetry,
	}
	if p.target != nil {
		return p.EndEviction(ctx, r.Client, eviction)
	}
	if err := p.EvictUnreachable(ctx, r.Client, eviction, outcome); err != nil {
		return err
	}
	install.RecordRemovalWarning(r.Events, p.Object, reasonLeftBehind, "objects on the hub are left behind: "+outcome.Message)
	return r.releaseHub(ctx, p)
}

// releaseHub remembers that nothing of ours is left on a hub that the operator
// does not run on, or that it is given up, so its secret is no longer needed.
func (r *hubRemoval) releaseHub(ctx context.Context, p *clusterManagerPass) error {
	r.hubs.ForgetClient(p.Object.Name)
	r.arrivals.ForgetHub(p.Object.Name)
	return p.ChangeMeta(ctx, r.Client, func(cm client.Object) bool {
		return controllerutil.RemoveFinalizer(cm, operatorv1.FinalizerClusterManagerHostedCleanup)
	})
}
