// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package continuous moves replicas to better clusters by themselves, a few at a
// time, for policies that ask for it.
package continuous

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/decide"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/decision"
	"github.com/capstan-io/capstan/internal/propagation/rebalance"
)

const (
	// looksPerWindow is how often a binding is looked at in a window, and lookMin how
	// often at most.
	looksPerWindow = 5
	lookMin        = 10 * time.Second
	// reasonRebalanced is the reason of the events on what has moved.
	reasonRebalanced = "ReplicasRebalanced"
	action           = "Rebalance"
)

// RebalanceDeps are what the controller works with.
type RebalanceDeps struct {
	// Client reads from a cache.
	Client  client.Client
	Decider *decide.Decider
	Fleet   *fleet.Fleet
	Clock   clock.PassiveClock
	Events  *events.Recorder
}

// RebalanceController moves replicas.
type RebalanceController struct {
	RebalanceDeps

	// moving has replicas take their room one after the other: it is found first, and taken then.
	moving sync.Mutex

	mu sync.Mutex
	// states are what was seen of bindings whose policies ask for it.
	states map[types.NamespacedName]rebalance.ObservedState
}

// NewRebalanceController returns the controller.
func NewRebalanceController(d RebalanceDeps) *RebalanceController {
	return &RebalanceController{RebalanceDeps: d, states: map[types.NamespacedName]rebalance.ObservedState{}}
}

// Reconcile looks at one binding, and moves some of its replicas if they have been
// better off elsewhere for long enough.
func (c *RebalanceController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := emptyBinding(req.NamespacedName)
	if err := c.Client.Get(ctx, req.NamespacedName, b); err != nil {
		c.forgetState(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	set, err := c.settings(ctx, b)
	if set == nil || err != nil {
		c.forgetState(req.NamespacedName)
		return ctrl.Result{}, err
	}
	result := ctrl.Result{RequeueAfter: max(set.Window/looksPerWindow, lookMin)}
	if isRebalanceHeld(b) {
		c.forgetState(req.NamespacedName)
		return result, nil
	}
	wants, known, err := c.Decider.PreviewReplicas(b)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !known {
		c.forgetState(req.NamespacedName)
		return result, nil
	}
	step := c.nextStep(b, replicasByCluster(wants), *set)
	if step == nil {
		return result, nil
	}
	return result, c.moveReplicas(ctx, b, step)
}

// settings returns what the policy of a binding asks for; nil is that nothing
// moves by itself.
func (c *RebalanceController) settings(ctx context.Context, b lookup.Binding) (*rebalance.Settings, error) {
	if !b.GetDeletionTimestamp().IsZero() {
		return nil, nil //nolint:nilnil // documented
	}
	name, is := lookup.PolicyOf(b)
	if !is {
		return nil, nil //nolint:nilnil // documented
	}
	policy, err := lookup.ReadPolicy(ctx, c.Client, name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, fmt.Errorf("looking how the replicas of binding %q move: %w", client.ObjectKeyFromObject(b), err)
	}
	if !claims.PolicyClaimsObject(policy, b) {
		return nil, nil //nolint:nilnil // documented
	}
	set, _ := rebalance.ParseSettings(policy.GetAnnotations()) // admission has told of mistakes
	return set, nil
}

// isRebalanceHeld reports whether nothing moves for now: changes would not get to the clusters,
// what was sent last has not arrived, or the object is not well.
func isRebalanceHeld(b lookup.Binding) bool {
	status := b.BindingStatus()
	if decision.DecideDispatch(b.BindingSpec()).Code != decision.Dispatched {
		return true
	}
	if !meta.IsStatusConditionTrue(status.Conditions, workv1alpha2.BindingConditionFullyApplied) {
		return true
	}
	return slices.ContainsFunc(status.AggregatedStatus, func(item workv1alpha2.AggregatedStatusItem) bool {
		return item.Health == workv1alpha2.ResourceUnhealthy
	})
}

// nextStep takes in where the replicas of a binding would be, and returns what moves now.
func (c *RebalanceController) nextStep(b lookup.Binding, wants rebalance.Replicas, set rebalance.Settings) *rebalance.Step {
	seen := rebalance.ObservedReplicas{
		At: c.Clock.Now(), Has: replicasByCluster(b.BindingSpec().Clusters), Wants: wants,
		Moved: rebalance.LastMove(b.GetAnnotations()).At.Time, Fixed: map[string]bool{},
	}
	clusters := c.Fleet.Snapshot()
	for _, all := range []rebalance.Replicas{seen.Has, seen.Wants} {
		for name := range all {
			cluster, _ := clusters.ClusterNamed(name)
			seen.Fixed[name] = cluster.Available != metav1.ConditionTrue // what becomes of it there is not known
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	state, step := c.states[client.ObjectKeyFromObject(b)].NextStep(seen, set)
	c.states[client.ObjectKeyFromObject(b)] = state
	return step
}

// moveReplicas writes where the replicas are from now on, and says so.
func (c *RebalanceController) moveReplicas(ctx context.Context, b lookup.Binding, step *rebalance.Step) error {
	to := make([]workv1alpha2.TargetCluster, 0, len(step.To))
	for _, name := range slices.Sorted(maps.Keys(step.To)) {
		to = append(to, workv1alpha2.TargetCluster{Name: name, Replicas: step.To[name]})
	}
	c.moving.Lock()
	may, err := c.Decider.AdmitMove(b, to)
	c.moving.Unlock()
	if err != nil || !may {
		return err
	}
	record := step.RecordOfMove(replicasByCluster(b.BindingSpec().Clusters), c.Clock.Now())
	after := deepcopy.CopyObject(b)
	after.BindingSpec().Clusters = to
	annotations := maps.Clone(b.GetAnnotations())
	annotations[fleetv1alpha1.AnnotationRebalanced] = record.AnnotationText()
	after.SetAnnotations(annotations)
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("moving replicas of binding %q: %w", client.ObjectKeyFromObject(b), err)
	}
	of := b.BindingSpec().Resource
	object := &corev1.ObjectReference{APIVersion: of.APIVersion, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name, UID: of.UID}
	c.Events.Eventf(object, after, corev1.EventTypeNormal, reasonRebalanced, action, "%s", record.What)
	c.Events.Eventf(after, nil, corev1.EventTypeNormal, reasonRebalanced, action, "%s", record.What)
	return nil
}

func (c *RebalanceController) forgetState(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.states, name)
}

func emptyBinding(name types.NamespacedName) lookup.Binding {
	if name.Namespace == "" {
		return &workv1alpha2.ClusterResourceBinding{}
	}
	return &workv1alpha2.ResourceBinding{}
}

func replicasByCluster(of []workv1alpha2.TargetCluster) rebalance.Replicas {
	all := make(rebalance.Replicas, len(of))
	for _, target := range of {
		if target.Replicas > 0 {
			all[target.Name] = target.Replicas
		}
	}
	return all
}
