// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/conditions"
	"github.com/capstan-io/capstan/internal/render"
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

	applier *render.Applier
	// secretApplier sees what is there through the caches of single secrets.
	secretApplier *render.Applier
	phases        []phase
	cleanup       []phase
	// told is what OLM was told last. One pass runs at a time.
	told metav1.ConditionStatus
}

// New returns a Controller.
func New(deps Deps) *Controller {
	c := &Controller{
		Deps:          deps,
		applier:       render.NewApplier(deps.Client, deps.Client, FieldOwner),
		secretApplier: render.NewApplier(deps.Client, deps.Secrets, FieldOwner),
	}
	c.phases = []phase{
		{"validation", operatorv1.KlusterletReasonApplyFailed, c.validate},
		{"namespaces", operatorv1.KlusterletReasonManagedClusterResourceApplyFailed, c.namespaces},
		{"definitions", operatorv1.KlusterletReasonCRDApplyFailed, c.definitions},
		{"secrets", operatorv1.KlusterletReasonManagementClusterResourceApplyFailed, c.secrets},
		{"access", operatorv1.KlusterletReasonManagedClusterResourceApplyFailed, c.access},
		{"network", operatorv1.KlusterletReasonManagementClusterResourceApplyFailed, c.network},
		{"agents", operatorv1.KlusterletReasonManagementClusterResourceApplyFailed, c.agents},
		{"observation", operatorv1.KlusterletReasonManagementClusterResourceApplyFailed, c.observe},
		{"migration", operatorv1.KlusterletReasonApplyFailed, c.migrate},
	}
	// The agents go first, so that nobody brings back what is removed after them.
	c.cleanup = []phase{
		{"agents", operatorv1.KlusterletReasonApplyFailed, c.removeAgents},
		{"works", operatorv1.KlusterletReasonApplyFailed, c.removeAppliedWorks},
		{"access", operatorv1.KlusterletReasonApplyFailed, c.removeAccess},
		{"namespaces", operatorv1.KlusterletReasonApplyFailed, c.removeNamespaces},
		{"shared", operatorv1.KlusterletReasonApplyFailed, c.removeShared},
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
	before := klusterlet.DeepCopy()
	defer func() {
		err = errors.Join(err, c.tellOLM(ctx, klusterlet))
		if gone(klusterlet) {
			return
		}
		failure := conditions.PatchStatus(ctx, c.Client, before, klusterlet)
		if err == nil && apierrors.IsConflict(failure) {
			result, failure = ctrl.Result{RequeueAfter: conflictDelay}, nil
		}
		err = errors.Join(err, failure)
	}()
	p := &pass{klusterlet: klusterlet}
	if !klusterlet.DeletionTimestamp.IsZero() {
		return c.finalize(ctx, p)
	}
	// Before the first effect, so that whatever is installed is also removed.
	if controllerutil.AddFinalizer(klusterlet, operatorv1.FinalizerKlusterletCleanup) {
		if err := c.Client.Patch(ctx, klusterlet, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		before = klusterlet.DeepCopy()
	}
	resume(klusterlet)
	if err := c.run(ctx, p); err != nil {
		c.announceFailure(before, klusterlet)
		return ctrl.Result{}, err
	}
	c.announceJoin(before, klusterlet)
	return ctrl.Result{}, nil // whatever matters is watched
}
