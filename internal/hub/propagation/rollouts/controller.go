// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollouts reports the progress of each rollout, and continues it when time
// alone lets it. What clusters get is decided by package staging.
package rollouts

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/staging"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/kube/events"
)

// +kubebuilder:rbac:groups=fleet.capstan.io,resources=propagationrollouts;clusterpropagationrollouts,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=propagationrollouts/status;clusterpropagationrollouts/status,verbs=patch

const (
	// workers is how many rollouts are looked at at a time.
	workers = 4
	// writeEvery is how often the status of a rollout is written at most.
	writeEvery = time.Second
	action     = "Rollout"
)

// RolloutDeps are what the controller works with.
type RolloutDeps struct {
	// Client reads from a cache, and Live from the API server.
	Client client.Client
	Live   client.Reader
	Fleet  *fleet.Fleet
	Stages *staging.Stages
	Clock  clock.PassiveClock
	Events *events.Recorder
}

// RolloutController looks after rollouts.
type RolloutController struct {
	RolloutDeps

	mu    sync.Mutex
	wrote map[staging.RolloutKey]time.Time
}

// NewRolloutController returns the controller.
func NewRolloutController(d RolloutDeps) *RolloutController {
	return &RolloutController{RolloutDeps: d, wrote: map[staging.RolloutKey]time.Time{}}
}

// Reconcile takes in what a rollout says, and says how far it is.
func (c *RolloutController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := c.Fleet.LoadClusters(ctx, c.Live); err != nil {
		return ctrl.Result{}, err
	}
	if err := c.Stages.LoadRollouts(ctx); err != nil {
		return ctrl.Result{}, err
	}
	before := emptyRollout(req.NamespacedName)
	if err := c.Client.Get(ctx, req.NamespacedName, before); err != nil || !before.GetDeletionTimestamp().IsZero() {
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("reading the rollout %q: %w", req.NamespacedName, err)
		}
		c.forgetRollout(req.NamespacedName)
		return ctrl.Result{RequeueAfter: c.Stages.RemoveRollout(req.NamespacedName)}, nil
	}
	if later := c.Stages.PlaceRollout(before); later > 0 {
		return ctrl.Result{RequeueAfter: later}, nil
	}
	if err := c.Stages.SetRollout(ctx, before); err != nil {
		return ctrl.Result{}, err
	}
	progress, known := c.Stages.DecideProgress(req.NamespacedName)
	if !known {
		return ctrl.Result{}, nil // it comes again
	}
	if progress.Later > 0 {
		return ctrl.Result{RequeueAfter: progress.Later}, nil
	}
	absent, err := c.missingTarget(ctx, before, progress)
	if err != nil {
		return ctrl.Result{}, err
	}
	after := deepcopy.CopyObject(before)
	reportProgress(after, progress, absent)
	if wait := c.statusDelay(before, after); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := conditions.PatchStatus(ctx, c.Client, before, after); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of the rollout %q: %w", req.NamespacedName, err)
	}
	c.recordRolloutEvent(before, after)
	result := ctrl.Result{}
	if !progress.After.IsZero() {
		result.RequeueAfter = max(progress.After.Sub(c.Clock.Now()), time.Millisecond)
	}
	return result, nil
}

// missingTarget says why there is nothing to roll out; "" if there is.
func (c *RolloutController) missingTarget(ctx context.Context, r staging.Rollout, progress staging.RolloutProgress) (string, error) {
	if progress.Objects > 0 || progress.Rival != nil {
		return "", nil
	}
	spec := r.RolloutSpec()
	if t := spec.Template; t != nil {
		return fmt.Sprintf("No policy sends %s %q (%s) to clusters: \"capstan explain %s %s\" says why.", t.Kind, t.Name, t.APIVersion, t.Kind, t.Name), nil
	}
	if spec.Policy == nil { // the definition asks for one of both
		return "It names neither a policy nor a template.", nil
	}
	key := types.NamespacedName{Namespace: r.GetNamespace(), Name: spec.Policy.Name}
	kind := "PropagationPolicy"
	policy := client.Object(&policyv1alpha1.PropagationPolicy{})
	if key.Namespace == "" {
		kind = "ClusterPropagationPolicy"
		policy = &policyv1alpha1.ClusterPropagationPolicy{}
	}
	err := c.Client.Get(ctx, key, policy)
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("There is no %s %q: create it, or name another one in spec.policy.", kind, key.Name), nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the policy of the rollout %q: %w", client.ObjectKeyFromObject(r), err)
	}
	return "", nil
}

// statusDelay returns how long the status is not to be written yet, as it was a moment ago.
func (c *RolloutController) statusDelay(before, after staging.Rollout) time.Duration {
	if sameStatus(before, after) {
		return 0
	}
	key := client.ObjectKeyFromObject(after)
	now := c.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := writeEvery - now.Sub(c.wrote[key]); wait > 0 && wait <= writeEvery {
		return wait
	}
	c.wrote[key] = now
	return 0
}

func (c *RolloutController) forgetRollout(key staging.RolloutKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wrote, key)
}

// recordRolloutEvent tells of a rollout that has stopped or ended since it was said how far
// it is.
func (c *RolloutController) recordRolloutEvent(before, after staging.Rollout) {
	was := meta.FindStatusCondition(before.RolloutStatus().Conditions, fleetv1alpha1.PropagationRolloutConditionComplete)
	is := meta.FindStatusCondition(after.RolloutStatus().Conditions, fleetv1alpha1.PropagationRolloutConditionComplete)
	if is == nil || was != nil && was.Reason == is.Reason {
		return
	}
	switch is.Reason {
	case fleetv1alpha1.PropagationRolloutReasonTooManyFailures:
		c.Events.Eventf(after, nil, corev1.EventTypeWarning, is.Reason, action, "%s", is.Message)
	case fleetv1alpha1.PropagationRolloutReasonComplete, fleetv1alpha1.PropagationRolloutReasonUndone:
		c.Events.Eventf(after, nil, corev1.EventTypeNormal, is.Reason, action, "%s", is.Message)
	}
}

func emptyRollout(name types.NamespacedName) staging.Rollout {
	if name.Namespace == "" {
		return &fleetv1alpha1.ClusterPropagationRollout{}
	}
	return &fleetv1alpha1.PropagationRollout{}
}
