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
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/claims"
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

// Deps are what the controller works with.
type Deps struct {
	// Client reads from a cache.
	Client  client.Client
	Decider *decide.Decider
	Fleet   *fleet.Fleet
	Clock   clock.PassiveClock
	Events  *events.Recorder
}

// Controller moves replicas.
type Controller struct {
	Deps

	// moving has replicas take their room one after the other: it is found first, and taken then.
	moving sync.Mutex

	mu sync.Mutex
	// states are what was seen of bindings whose policies ask for it.
	states map[types.NamespacedName]rebalance.State
}

// New returns the controller.
func New(d Deps) *Controller {
	return &Controller{Deps: d, states: map[types.NamespacedName]rebalance.State{}}
}

// Reconcile looks at one binding, and moves some of its replicas if they have been
// better off elsewhere for long enough.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := empty(req.NamespacedName)
	if err := c.Client.Get(ctx, req.NamespacedName, b); err != nil {
		c.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	set, err := c.settings(ctx, b)
	if set == nil || err != nil {
		c.forget(req.NamespacedName)
		return ctrl.Result{}, err
	}
	result := ctrl.Result{RequeueAfter: max(set.Window/looksPerWindow, lookMin)}
	if held(b) {
		c.forget(req.NamespacedName)
		return result, nil
	}
	wants, known, err := c.Decider.Elsewhere(b)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !known {
		c.forget(req.NamespacedName)
		return result, nil
	}
	step := c.next(b, replicas(wants), *set)
	if step == nil {
		return result, nil
	}
	return result, c.move(ctx, b, step)
}

// settings returns what the policy of a binding asks for; nil is that nothing
// moves by itself.
func (c *Controller) settings(ctx context.Context, b lookup.Binding) (*rebalance.Settings, error) {
	if !b.GetDeletionTimestamp().IsZero() {
		return nil, nil //nolint:nilnil // documented
	}
	name, is := lookup.PolicyOf(b)
	if !is {
		return nil, nil //nolint:nilnil // documented
	}
	policy, err := lookup.Policy(ctx, c.Client, name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, fmt.Errorf("looking how the replicas of binding %q move: %w", client.ObjectKeyFromObject(b), err)
	}
	if !claims.Claims(policy, b) {
		return nil, nil //nolint:nilnil // documented
	}
	set, _ := rebalance.Read(policy.GetAnnotations()) // admission has told of mistakes
	return set, nil
}

// held tells whether nothing moves for now: changes would not get to the clusters,
// what was sent last has not arrived, or the object is not well.
func held(b lookup.Binding) bool {
	spec := b.BindingSpec()
	status := b.BindingStatus()
	if s := spec.Suspension; s != nil && (s.Dispatching != nil && *s.Dispatching || s.DispatchingOnClusters != nil && len(s.DispatchingOnClusters.ClusterNames) > 0) {
		return true
	}
	if !meta.IsStatusConditionTrue(status.Conditions, workv1alpha2.BindingConditionFullyApplied) {
		return true
	}
	return slices.ContainsFunc(status.AggregatedStatus, func(item workv1alpha2.AggregatedStatusItem) bool {
		return item.Health == workv1alpha2.ResourceUnhealthy
	})
}

// next takes in where the replicas of a binding would be, and returns what moves now.
func (c *Controller) next(b lookup.Binding, wants rebalance.Replicas, set rebalance.Settings) *rebalance.Step {
	seen := rebalance.Seen{
		At: c.Clock.Now(), Has: replicas(b.BindingSpec().Clusters), Wants: wants,
		Moved: rebalance.Last(b.GetAnnotations()).At.Time, Fixed: map[string]bool{},
	}
	clusters := c.Fleet.Snapshot()
	for _, all := range []rebalance.Replicas{seen.Has, seen.Wants} {
		for name := range all {
			cluster, _ := clusters.Cluster(name)
			seen.Fixed[name] = cluster.Available != metav1.ConditionTrue // what becomes of it there is not known
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	state, step := c.states[client.ObjectKeyFromObject(b)].Next(seen, set)
	c.states[client.ObjectKeyFromObject(b)] = state
	return step
}

// move writes where the replicas are from now on, and says so.
func (c *Controller) move(ctx context.Context, b lookup.Binding, step *rebalance.Step) error {
	to := make([]workv1alpha2.TargetCluster, 0, len(step.To))
	for _, name := range slices.Sorted(maps.Keys(step.To)) {
		to = append(to, workv1alpha2.TargetCluster{Name: name, Replicas: step.To[name]})
	}
	c.moving.Lock()
	may, err := c.Decider.Moves(b, to)
	c.moving.Unlock()
	if err != nil || !may {
		return err
	}
	record := step.Of(replicas(b.BindingSpec().Clusters), c.Clock.Now())
	after := b.DeepCopyObject().(lookup.Binding) //nolint:forcetypeassert // it is one
	after.BindingSpec().Clusters = to
	annotations := maps.Clone(b.GetAnnotations())
	annotations[fleetv1alpha1.AnnotationRebalanced] = record.Text()
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

func (c *Controller) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.states, name)
}

func empty(name types.NamespacedName) lookup.Binding {
	if name.Namespace == "" {
		return &workv1alpha2.ClusterResourceBinding{}
	}
	return &workv1alpha2.ResourceBinding{}
}

func replicas(of []workv1alpha2.TargetCluster) rebalance.Replicas {
	all := make(rebalance.Replicas, len(of))
	for _, target := range of {
		if target.Replicas > 0 {
			all[target.Name] = target.Replicas
		}
	}
	return all
}
