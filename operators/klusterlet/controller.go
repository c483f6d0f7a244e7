// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/conditions"
	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/internal/remote"
	"github.com/capstan-io/capstan/operators/klusterlet/hubprobe"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// FieldOwner is the name that the operator owns fields under.
const FieldOwner = "klusterlet"

// conflictDelay is when to look again after someone else changed the Klusterlet
// during a pass: time for the change to reach the cache.
const conflictDelay = 50 * time.Millisecond

// Settings say how the operator was started.
type Settings struct {
	// Namespace that the operator runs in.
	Namespace string
	// Image of the agents where the Klusterlet names none.
	Image string
	// Version of the operator, stamped onto the definitions that it installs.
	Version string
	// PullSecret is the name of a secret in Namespace that is copied to where
	// agents run, if it exists.
	PullSecret string
	// Replicas of the agents. Defaults to 0: one, or three if the cluster has
	// several nodes for its control plane.
	Replicas int32
	// ControlPlaneSelector selects these nodes.
	ControlPlaneSelector string
	// Env is added to the environment of the agents, for example a proxy.
	Env []corev1.EnvVar
}

// Deps are what a Controller works with.
type Deps struct {
	// Client reads from a cache.
	Client client.Client
	// Live reads from the API server, what is needed rarely.
	Live client.Reader
	// Secrets reads the few secrets that the operator has to do with.
	Secrets client.Reader
	Results *hubprobe.Results
	Rules   manifests.Rules
	Events  events.EventRecorder
	// Upgrade tells OLM whether the operator may be replaced; nil without OLM.
	Upgrade  UpgradeSignal
	Clock    clock.PassiveClock
	Settings Settings
}

// Controller installs, watches and removes the agents of Klusterlets.
type Controller struct {
	Deps

	// home is the cluster that the operator and the agents run on.
	home    *site
	members *remote.Clients
	prober  probe.Prober
	phases  []phase
	cleanup []phase
	olm     olmState
}

// New returns a Controller.
func New(deps Deps) *Controller {
	c := &Controller{
		Deps:    deps,
		home:    newSite(deps.Client, deps.Live, deps.Secrets),
		members: remote.NewClients(deps.Client.Scheme()),
	}
	c.phases = []phase{
		{"validation", operatorv1.KlusterletReasonApplyFailed, c.validate},
		{"home", operatorv1.KlusterletReasonManagementClusterResourceApplyFailed, c.homeNamespaces},
		{"connection", operatorv1.KlusterletReasonManagedClusterResourceApplyFailed, c.connect},
		{"namespaces", operatorv1.KlusterletReasonManagedClusterResourceApplyFailed, c.namespaces},
		{"definitions", operatorv1.KlusterletReasonCRDApplyFailed, c.definitions},
		{"secrets", operatorv1.KlusterletReasonManagementClusterResourceApplyFailed, c.secrets},
		{"access", operatorv1.KlusterletReasonManagedClusterResourceApplyFailed, c.access},
		{"kubeconfigs", operatorv1.KlusterletReasonManagedClusterResourceApplyFailed, c.kubeconfigs},
		{"network", operatorv1.KlusterletReasonManagementClusterResourceApplyFailed, c.network},
		{"agents", operatorv1.KlusterletReasonManagementClusterResourceApplyFailed, c.agents},
		{"observation", operatorv1.KlusterletReasonManagementClusterResourceApplyFailed, c.observe},
		{"migration", operatorv1.KlusterletReasonApplyFailed, c.migrate},
	}
	// The agents go first, so that nobody brings back what is removed after them.
	c.cleanup = []phase{
		{"agents", operatorv1.KlusterletReasonApplyFailed, c.removeAgents},
		{"connection", operatorv1.KlusterletReasonApplyFailed, c.reachForRemoval},
		{"works", operatorv1.KlusterletReasonApplyFailed, onMember(c.removeAppliedWorks)},
		{"access", operatorv1.KlusterletReasonApplyFailed, onMember(c.removeAccess)},
		{"namespaces", operatorv1.KlusterletReasonApplyFailed, onMember(c.removeNamespaces)},
		{"shared", operatorv1.KlusterletReasonApplyFailed, onMember(c.removeShared)},
		{"managed cluster", operatorv1.KlusterletReasonApplyFailed, c.releaseMember},
		{"access to the management cluster", operatorv1.KlusterletReasonApplyFailed, c.removeHomeAccess},
		{"namespace of hosted agents", operatorv1.KlusterletReasonApplyFailed, c.removeHomeNamespace},
	}
	return c
}

// Reconcile walks a Klusterlet through its phases, or removes what was
// installed for it.
func (c *Controller) Reconcile(ctx context.Context, klusterlet *operatorv1.Klusterlet) (result ctrl.Result, err error) {
	klusterlet = klusterlet.DeepCopy()
	if stop, err := paused(klusterlet); err != nil || stop {
		return ctrl.Result{}, errors.Join(err, c.pause(ctx, klusterlet))
	}
	p := &pass{klusterlet: klusterlet, before: klusterlet.DeepCopy()}
	defer func() {
		err = errors.Join(err, c.tellOLM(ctx, klusterlet))
		if released(klusterlet) {
			return
		}
		failure := conditions.PatchStatus(ctx, c.Client, p.before, klusterlet)
		if err == nil && apierrors.IsConflict(failure) {
			result, failure = ctrl.Result{RequeueAfter: conflictDelay}, nil
		}
		err = errors.Join(err, failure)
	}()
	if !klusterlet.DeletionTimestamp.IsZero() {
		return c.finalize(ctx, p)
	}
	// Before the first effect, so that whatever is installed is also removed.
	err = c.changeMeta(ctx, p, func(k *operatorv1.Klusterlet) bool {
		return controllerutil.AddFinalizer(k, operatorv1.FinalizerKlusterletCleanup)
	})
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	resume(klusterlet)
	if err := c.run(ctx, p); err != nil {
		c.announceFailure(p.before, klusterlet)
		if errors.Is(err, errUnprepared) {
			return ctrl.Result{RequeueAfter: memberRetry}, nil
		}
		return ctrl.Result{}, err
	}
	c.announceJoin(p.before, klusterlet)
	if manifests.Hosted(klusterlet) {
		return ctrl.Result{RequeueAfter: memberResync}, nil
	}
	return ctrl.Result{}, nil // whatever matters is watched
}
