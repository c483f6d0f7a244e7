// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/pace"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters;managedclustersets;managedclustersetbindings;placements;addonplacementscores,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placementdecisions,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements/status;placementdecisions/status,verbs=update;patch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Controller chooses clusters for Placements.
type Controller struct {
	client   client.Client
	clock    clock.PassiveClock
	events   *events.Recorder
	model    *model
	meter    *meter
	arrivals *arrivals

	expectations *expectations
	pace         *pace.Pace // of the PlacementDecisions of namespaces
}

// New returns the controller.
func New(c client.Client, clk clock.PassiveClock, recorder *events.Recorder) *Controller {
	return &Controller{
		client: c, clock: clk, events: recorder,
		model: newModel(), meter: newMeter(clk), arrivals: newArrivals(clk), expectations: newExpectations(clk),
		pace: pace.New(writesOfNamespace, writesInASecond),
	}
}

// Collectors are its metrics.
func (c *Controller) Collectors() []prometheus.Collector { return c.meter.collectors() }

// Name is the name of the controller in logs and metrics.
func (c *Controller) Name() string { return "placement" }

// Reconcile chooses clusters for one Placement, writes its PlacementDecisions,
// and then its status.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	since := c.arrivals.begin(req)
	p := &clusterv1beta1.Placement{}
	if err := c.client.Get(ctx, req.NamespacedName, p); err != nil {
		c.forget(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !p.DeletionTimestamp.IsZero() || p.Annotations[clusterv1beta1.AnnotationSchedulingDisable] == "true" {
		c.forget(req)
		return ctrl.Result{}, nil
	}
	decisions, err := c.decisions(ctx, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	if decisions.behind {
		return ctrl.Result{RequeueAfter: conflict.Retry}, nil
	}
	bound, err := c.bound(ctx, p.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	request, problems := placement.Compile(p, bound)
	if len(problems) > 0 {
		c.forget(req)
		return ctrl.Result{}, c.reject(ctx, p, problems)
	}
	now := c.clock.Now()
	result, groups := c.choose(req.NamespacedName, request, listed(decisions.slices), now)
	if result.Exhausted { // who has been chosen stays, as it is not known whether that is wrong
		c.arrivals.end(req)
		return ctrl.Result{}, c.reject(ctx, p, field.ErrorList{result.Problem})
	}
	wanted, again := arrange(p, request, chosen{groups, result}, decisions, now)
	done := plan(decisions.slices, wanted)
	if wait := c.pace.Take(p.Namespace, done.number(), now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // those of others do not wait
	}
	began := c.clock.Now()
	if err := c.write(ctx, p, decisions, done); err != nil {
		return ctrl.Result{}, err
	}
	c.meter.wrote(done, began, since)
	c.tell(p, decisions.slices, wanted, done)
	if err := c.report(ctx, p, request, outcome{result, wanted, done, now}); err != nil {
		return ctrl.Result{}, err
	}
	c.arrivals.end(req)
	return ctrl.Result{RequeueAfter: until(first(result.After, again), now)}, nil
}

// choose chooses clusters for a Placement that has some, and divides them into
// groups.
func (c *Controller) choose(key types.NamespacedName, request placement.Request, has []string, now time.Time) (scheduler.Result, []scheduler.Group) {
	slices.Sort(has)
	// It is tracked before the fleet is looked at, or what changes in between is missed.
	c.model.track(key, tracked{request: request, targets: has, deciding: true})
	fleet, seen := c.model.snapshot()
	observer, end := c.meter.evaluation()
	result := scheduler.Schedule(fleet, request.Observed(observer), has, now)
	end()
	after := tracked{request: request, seen: seen, targets: result.Targets, wanting: len(result.Targets) == 0 || result.Missing() > 0}
	if result.Exhausted { // what it has stays, until a change of the fleet that may help
		after.targets = has
		after.wanting = true
	}
	c.model.track(key, after)
	return result, request.Grouping.Divide(fleet, result.Targets)
}

// forget drops a Placement that no cluster is chosen for any more.
func (c *Controller) forget(req ctrl.Request) {
	c.model.forget(req.NamespacedName)
	c.arrivals.end(req)
	c.expectations.forget(req.NamespacedName)
}

// first returns the earlier time. The zero time is never.
func first(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func until(then, now time.Time) time.Duration {
	if then.IsZero() {
		return 0
	}
	return max(then.Sub(now), time.Millisecond)
}

// bound returns the sets that are bound to a namespace.
func (c *Controller) bound(ctx context.Context, namespace string) ([]scheduler.Set, error) {
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	if err := c.client.List(ctx, bindings, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the ManagedClusterSetBindings of namespace %q: %w", namespace, err)
	}
	var bound []scheduler.Set
	for i := range bindings.Items {
		name := bindings.Items[i].Spec.ClusterSet
		set := &clusterv1beta2.ManagedClusterSet{}
		if err := c.client.Get(ctx, types.NamespacedName{Name: name}, set); err != nil {
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading ManagedClusterSet %q: %w", name, err)
			}
			continue // the binding says so
		}
		selector, err := view.SetSelector(set)
		if err != nil {
			continue // the set says so
		}
		bound = append(bound, scheduler.Set{Name: name, Clusters: selector})
	}
	return bound, nil
}

// reject says what is wrong with the spec. The decisions stay as they are.
func (c *Controller) reject(ctx context.Context, p *clusterv1beta1.Placement, problems field.ErrorList) error {
	after := p.DeepCopy()
	conditions.Set(&after.Status.Conditions, p.Generation, placement.Misconfigured(problems))
	if err := c.patch(ctx, p, after); err != nil {
		return err
	}
	return reconcile.TerminalError(problems.ToAggregate())
}

// outcome is what was made of a request.
type outcome struct {
	result  scheduler.Result
	written []slice
	done    writes
	at      time.Time
}

// report writes the status.
func (c *Controller) report(ctx context.Context, p *clusterv1beta1.Placement, request placement.Request, o outcome) error {
	after := p.DeepCopy()
	after.Status.NumberOfSelectedClusters = int32(min(len(o.result.Targets), maxInt32))
	after.Status.DecisionGroups = groupsOf(p.Name, o.written)
	switch {
	case !request.ByScore:
		after.Status.LastScoreUpdateTime = nil
	case !o.done.none() || after.Status.LastScoreUpdateTime == nil:
		after.Status.LastScoreUpdateTime = new(metav1.NewTime(o.at))
	}
	var problems field.ErrorList
	for _, problem := range []*field.Error{o.result.Problem, placement.TooManyGroups(request.Grouping, len(o.result.Targets))} {
		if problem != nil {
			problems = append(problems, problem)
		}
	}
	for _, condition := range []metav1.Condition{placement.Satisfied(o.result, request.NoSets), placement.Misconfigured(problems)} {
		conditions.Set(&after.Status.Conditions, p.Generation, condition)
	}
	return c.patch(ctx, p, after)
}

// patch writes the status of a Placement, if it is another one than before.
func (c *Controller) patch(ctx context.Context, before, after *clusterv1beta1.Placement) error {
	if err := conditions.PatchStatus(ctx, c.client, before, after); err != nil {
		return client.IgnoreNotFound(err)
	}
	if after.ResourceVersion != before.ResourceVersion {
		c.expectations.wrote(before, after)
	}
	return nil
}

// groupsOf returns the groups as the status lists them.
func groupsOf(name string, written []slice) []clusterv1beta1.DecisionGroupStatus {
	var groups []clusterv1beta1.DecisionGroupStatus
	for _, s := range written {
		at := slices.IndexFunc(groups, func(g clusterv1beta1.DecisionGroupStatus) bool { return int(g.DecisionGroupIndex) == s.Group })
		if at < 0 {
			at = len(groups)
			groups = append(groups, clusterv1beta1.DecisionGroupStatus{DecisionGroupIndex: int32(max(0, min(s.Group, maxInt32))), DecisionGroupName: s.Name})
		}
		groups[at].Decisions = append(groups[at].Decisions, placement.DecisionName(name, s.Number))
		groups[at].ClustersCount += int32(min(len(s.Clusters), clusterv1beta1.DecisionsMax))
	}
	slices.SortFunc(groups, func(a, b clusterv1beta1.DecisionGroupStatus) int {
		return int(a.DecisionGroupIndex - b.DecisionGroupIndex)
	})
	return groups
}

// listed returns the clusters of all slices.
func listed(all []slice) []string {
	var clusters []string
	for _, s := range all {
		clusters = append(clusters, s.Clusters...)
	}
	return clusters
}
