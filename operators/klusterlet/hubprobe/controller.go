// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hubprobe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

const (
	// retryInterval is how often a hub is asked that did not let the agent in, or of which
	// the agent says so.
	retryInterval = 30 * time.Second
	// functionalInterval is how often a hub is asked that did. It costs the hub a
	// request that counts as a write, and the agent notices a change at once and
	// reports it, which leads to a check, too. That may come before the hub has taken
	// the agent's rights away.
	functionalInterval = 5 * time.Minute
	// workers is for how many Klusterlets hubs are asked at the same time.
	workers = 4
	// hashBytes is how much of a SHA-256 tells two inputs apart.
	hashBytes = 16
)

// ControllerDeps are what a Controller works with.
type ControllerDeps struct {
	// Client reads Klusterlets and the agents' join status.
	Client client.Reader
	// Secrets reads the two secrets with kubeconfigs.
	Secrets client.Reader
	Prober  probe.Prober
	Results *ResultStore
	Clock   clock.PassiveClock
	// Changed is sent each Klusterlet whose result is another than before.
	Changed chan<- event.TypedGenericEvent[*operatorv1.Klusterlet]
}

// Controller asks the hubs of all Klusterlets, at once when something changed
// that matters, and at intervals.
type Controller struct {
	deps ControllerDeps

	mu   sync.Mutex
	last map[string]probeAttempt
}

// probeAttempt is the last time that a hub was asked.
type probeAttempt struct {
	inputs string
	due    time.Time
}

// NewHubProbeController returns a Controller.
func NewHubProbeController(deps ControllerDeps) *Controller {
	return &Controller{deps: deps, last: map[string]probeAttempt{}}
}

// SetupWithManager adds the controller to the manager. The triggers send
// the Klusterlets whose secrets or join status changed.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, triggers ...source.Source) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("klusterlet.hubprobe").
		For(&operatorv1.Klusterlet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	for _, trigger := range triggers {
		b = b.WatchesRawSource(trigger)
	}
	return b.Complete(c)
}

// Reconcile asks the hub of one Klusterlet if it is time to, or if its
// credentials or the step that the agent is at have changed.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	klusterlet := &operatorv1.Klusterlet{}
	if err := c.deps.Client.Get(ctx, request.NamespacedName, klusterlet); err != nil || !klusterlet.DeletionTimestamp.IsZero() {
		c.forgetKlusterlet(request.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	in, err := c.gatherProbeInputs(ctx, klusterlet)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := c.deps.Clock.Now()
	if wait, fresh := c.lastAttemptFresh(klusterlet.Name, in.hash, now); fresh {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	result := c.probeHub(ctx, klusterlet, in)
	interval := retryInterval
	if result.Hub.Verdict == probe.Functional && !in.staysOutside() {
		interval = functionalInterval
	}
	c.recordAttempt(klusterlet.Name, probeAttempt{inputs: in.hash, due: now.Add(interval)})
	if c.deps.Results.recordResult(klusterlet.Name, result) {
		select {
		case c.deps.Changed <- event.TypedGenericEvent[*operatorv1.Klusterlet]{Object: klusterlet}:
		case <-ctx.Done():
			return reconcile.Result{}, ctx.Err()
		}
	}
	return reconcile.Result{RequeueAfter: interval}, nil
}

// probeInputs are what the answer of a hub depends on.
type probeInputs struct {
	bootstrap, hub probe.Credential
	// step is what the agent says that it is at, "" if it has not said it yet.
	step string
	hash string
}

// staysOutside reports whether the agent says that it has not joined, or is not in the hub any more.
func (in probeInputs) staysOutside() bool {
	return in.step != "" && in.step != operatorv1.JoinReasonJoined
}

func (c *Controller) gatherProbeInputs(ctx context.Context, klusterlet *operatorv1.Klusterlet) (probeInputs, error) {
	namespace := manifests.AgentNamespace(klusterlet)
	alias := HubAliasOf(klusterlet)
	sum := sha256.New()
	fmt.Fprintf(sum, "%s/%s/%v/", namespace, klusterlet.Spec.ClusterName, klusterlet.Spec.HubAPIServerHostAlias)
	read := func(name string) (probe.Credential, error) {
		secret, err := probe.ReadSecret(ctx, c.deps.Secrets, types.NamespacedName{Namespace: namespace, Name: name})
		if err != nil {
			return probe.Credential{}, err
		}
		if secret != nil {
			fmt.Fprintf(sum, "%s/%s/", secret.UID, probe.FingerprintData(secret.Data))
		}
		if name == operatorv1.HubKubeConfigSecret {
			secret = NonEmptySecret(secret)
		}
		return probe.InspectSecret(secret, namespace+"/"+name, alias), nil
	}
	bootstrap, err := read(operatorv1.BootstrapHubKubeConfigSecret)
	if err != nil {
		return probeInputs{}, err
	}
	hub, err := read(operatorv1.HubKubeConfigSecret)
	if err != nil {
		return probeInputs{}, err
	}
	step, err := c.reportedJoinStep(ctx, namespace)
	if err != nil {
		return probeInputs{}, err
	}
	fmt.Fprintf(sum, "%q", step)
	return probeInputs{bootstrap: bootstrap, hub: RequireClusterName(hub, klusterlet), step: step, hash: hex.EncodeToString(sum.Sum(nil)[:hashBytes])}, nil
}

// reportedJoinStep returns the step that the agent says it is at.
func (c *Controller) reportedJoinStep(ctx context.Context, namespace string) (string, error) {
	status := &corev1.ConfigMap{}
	err := c.deps.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: operatorv1.JoinStatusConfigMap}, status)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading ConfigMap %q in namespace %q: %w", operatorv1.JoinStatusConfigMap, namespace, err)
	}
	return status.Data[operatorv1.JoinStatusReasonKey], nil
}

// probeHub asks the hub. As long as it lets the agent in, it does not matter
// whether the credential to join with still works: it may well have expired.
func (c *Controller) probeHub(ctx context.Context, klusterlet *operatorv1.Klusterlet, in probeInputs) ProbeResult {
	result := ProbeResult{Hub: c.deps.Prober.ProbeHub(ctx, in.hub, ClusterName(klusterlet, in.hub))}
	if result.Hub.Verdict == probe.Functional {
		result.Bootstrap = c.deps.Results.LastResult(klusterlet.Name).Bootstrap
		return result
	}
	result.Bootstrap = c.deps.Prober.ProbeBootstrap(ctx, in.bootstrap)
	return result
}

// ClusterName is the name that the member has on the hub; empty if unknown.
func ClusterName(klusterlet *operatorv1.Klusterlet, hub probe.Credential) string {
	if klusterlet.Spec.ClusterName != "" {
		return klusterlet.Spec.ClusterName
	}
	return hub.ClusterName
}

// RequireClusterName returns the hub's credential with a problem if nobody says which cluster
// it is for.
func RequireClusterName(hub probe.Credential, klusterlet *operatorv1.Klusterlet) probe.Credential {
	if hub.Config == nil || ClusterName(klusterlet, hub) != "" {
		return hub
	}
	return probe.Credential{Problem: probe.CheckOutcome{Verdict: probe.ClusterNameMissing, Message: fmt.Sprintf("the cluster name is unknown: set spec.clusterName, or key %[2]q in secret %[1]q",
		manifests.AgentNamespace(klusterlet)+"/"+operatorv1.HubKubeConfigSecret, operatorv1.ClusterNameKey)}}
}

// NonEmptySecret returns the hub's secret if there is anything in it. The operator makes
// an empty one for the agent to write, which is as good as none.
func NonEmptySecret(secret *corev1.Secret) *corev1.Secret {
	if secret == nil || len(secret.Data) == 0 {
		return nil
	}
	return secret
}

// HubAliasOf returns the alias of the hub that the Klusterlet has; nil if none.
func HubAliasOf(klusterlet *operatorv1.Klusterlet) *probe.HostAlias {
	alias := klusterlet.Spec.HubAPIServerHostAlias
	if alias == nil {
		return nil
	}
	return &probe.HostAlias{IP: alias.IP, Hostname: alias.Hostname}
}

func (c *Controller) lastAttemptFresh(name, hash string, now time.Time) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.last[name]
	wait := last.due.Sub(now)
	return wait, ok && last.inputs == hash && wait > 0
}

func (c *Controller) recordAttempt(name string, a probeAttempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[name] = a
}

func (c *Controller) forgetKlusterlet(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, name)
	c.deps.Results.forgetResult(name)
}
