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

// SchedulingController chooses clusters for Placements.
type SchedulingController struct {
	client   client.Client
	clock    clock.PassiveClock
	events   *events.Recorder
	model    *fleetModel
	meter    *schedulingMetrics
	arrivals *arrivals

	expectations *expectations
	pace         *pace.WriteThrottle // of the PlacementDecisions of namespaces
}

// NewSchedulingController returns the controller.
func NewSchedulingController(c client.Client, clk clock.PassiveClock, recorder *events.Recorder) *SchedulingController {
	return &SchedulingController{
		client: c, clock: clk, events: recorder,
		model: newFleetModel(), meter: newSchedulingMetrics(clk), arrivals: newArrivals(clk), expectations: newExpectations(clk),
		pace: pace.NewWriteThrottle(writesOfNamespace, writesInASecond),
	}
}

// MetricCollectors are its metrics.
func (c *SchedulingController) MetricCollectors() []prometheus.Collector {
	return c.meter.metricCollectors()
}

// ControllerName is the name of the controller in logs and metrics.
func (c *SchedulingController) ControllerName() string { return "placement" }

// Reconcile chooses clusters for one Placement, writes its PlacementDecisions,
// and then its status.
func (c *SchedulingController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	since := c.arrivals.takeArrival(req)
	p := &clusterv1beta1.Placement{}
	if err := c.client.Get(ctx, req.NamespacedName, p); err != nil {
		c.forgetPlacement(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !p.DeletionTimestamp.IsZero() || p.Annotations[clusterv1beta1.AnnotationSchedulingDisable] == "true" {
		c.forgetPlacement(req)
		return ctrl.Result{}, nil
	}
	decisions, err := c.listDecisions(ctx, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	if decisions.behind {
		return ctrl.Result{RequeueAfter: conflict.Retry}, nil
	}
	bound, err := c.listBoundSets(ctx, p.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	request, problems := placement.CompilePlacement(p, bound)
	if len(problems) > 0 {
		c.forgetPlacement(req)
		return ctrl.Result{}, c.reportMisconfigured(ctx, p, problems)
	}
	now := c.clock.Now()
	result, groups := c.selectClusters(req.NamespacedName, request, listedClusters(decisions.slices), now)
	if result.Exhausted { // who has been chosen stays, as it is not known whether that is wrong
		c.arrivals.finishArrival(req)
		return ctrl.Result{}, c.reportMisconfigured(ctx, p, field.ErrorList{result.Problem})
	}
	wanted, again := arrangeSlices(p, request, chosenGroups{groups, result}, decisions, now)
	done := planDecisionWrites(decisions.slices, wanted)
	if wait := c.pace.Take(p.Namespace, done.number(), now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // those of others do not wait
	}
	began := c.clock.Now()
	if err := c.writeDecisions(ctx, p, decisions, done); err != nil {
		return ctrl.Result{}, err
	}
	c.meter.observeDecisionWrites(done, began, since)
	c.recordDecisionEvent(p, decisions.slices, wanted, done)
	if err := c.writePlacementStatus(ctx, p, request, schedulingOutcome{result, wanted, done, now}); err != nil {
		return ctrl.Result{}, err
	}
	c.arrivals.finishArrival(req)
	return ctrl.Result{RequeueAfter: durationUntil(earlierTime(result.After, again), now)}, nil
}

// selectClusters chooses clusters for a Placement that has some, and divides them into
// groups.
func (c *SchedulingController) selectClusters(key types.NamespacedName, request placement.CompiledRequest, has []string, now time.Time) (scheduler.ScheduleResult, []scheduler.DecisionGroup) {
	slices.Sort(has)
	// It is tracked before the fleet is looked at, or what changes in between is missed.
	c.model.trackPlacement(key, trackedPlacement{request: request, targets: has, deciding: true})
	fleet, seen := c.model.snapshot()
	observer, end := c.meter.beginEvaluation()
	result := scheduler.ScheduleClusters(fleet, request.WithObserver(observer), has, now)
	end()
	after := trackedPlacement{request: request, seen: seen, targets: result.Targets, wanting: len(result.Targets) == 0 || result.MissingCount() > 0}
	if result.Exhausted { // what it has stays, until a change of the fleet that may help
		after.targets = has
		after.wanting = true
	}
	c.model.trackPlacement(key, after)
	return result, request.Grouping.DivideTargets(fleet, result.Targets)
}

// forgetPlacement drops a Placement that no cluster is chosen for any more.
func (c *SchedulingController) forgetPlacement(req ctrl.Request) {
	c.model.untrackPlacement(req.NamespacedName)
	c.arrivals.finishArrival(req)
	c.expectations.forgetExpectations(req.NamespacedName)
}

// earlierTime returns the earlier time. The zero time is never.
func earlierTime(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func durationUntil(then, now time.Time) time.Duration {
	if then.IsZero() {
		return 0
	}
	return max(then.Sub(now), time.Millisecond)
}

// listBoundSets returns the sets that are bound to a namespace.
func (c *SchedulingController) listBoundSets(ctx context.Context, namespace string) ([]scheduler.ClusterSet, error) {
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	if err := c.client.List(ctx, bindings, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the ManagedClusterSetBindings of namespace %q: %w", namespace, err)
	}
	var bound []scheduler.ClusterSet
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
		bound = append(bound, scheduler.ClusterSet{Name: name, Clusters: selector})
	}
	return bound, nil
}

// reportMisconfigured says what is wrong with the spec. The decisions stay as they are.
func (c *SchedulingController) reportMisconfigured(ctx context.Context, p *clusterv1beta1.Placement, problems field.ErrorList) error {
	after := p.DeepCopy()
	conditions.SetCondition(&after.Status.Conditions, p.Generation, placement.MisconfiguredCondition(problems))
	if err := c.patchPlacementStatus(ctx, p, after); err != nil {
		return err
	}
	return reconcile.TerminalError(problems.ToAggregate())
}

// schedulingOutcome is what was made of a request.
type schedulingOutcome struct {
	result  scheduler.ScheduleResult
	written []decisionSlice
	done    decisionWrites
	at      time.Time
}

// writePlacementStatus writes the status.
func (c *SchedulingController) writePlacementStatus(ctx context.Context, p *clusterv1beta1.Placement, request placement.CompiledRequest, o schedulingOutcome) error {
	after := p.DeepCopy()
	after.Status.NumberOfSelectedClusters = int32(min(len(o.result.Targets), maxInt32))
	after.Status.DecisionGroups = decisionGroupStatuses(p.Name, o.written)
	switch {
	case !request.ByScore:
		after.Status.LastScoreUpdateTime = nil
	case !o.done.isEmpty() || after.Status.LastScoreUpdateTime == nil:
		after.Status.LastScoreUpdateTime = new(metav1.NewTime(o.at))
	}
	var problems field.ErrorList
	for _, problem := range []*field.Error{o.result.Problem, placement.TooManyGroups(request.Grouping, len(o.result.Targets))} {
		if problem != nil {
			problems = append(problems, problem)
		}
	}
	for _, condition := range []metav1.Condition{placement.SatisfiedCondition(o.result, request.NoSets), placement.MisconfiguredCondition(problems)} {
		conditions.SetCondition(&after.Status.Conditions, p.Generation, condition)
	}
	return c.patchPlacementStatus(ctx, p, after)
}

// patchPlacementStatus writes the status of a Placement, if it is another one than before.
func (c *SchedulingController) patchPlacementStatus(ctx context.Context, before, after *clusterv1beta1.Placement) error {
	if err := conditions.PatchStatus(ctx, c.client, before, after); err != nil {
		return client.IgnoreNotFound(err)
	}
	if after.ResourceVersion != before.ResourceVersion {
		c.expectations.expectWritten(before, after)
	}
	return nil
}

// decisionGroupStatuses returns the groups as the status lists them.
func decisionGroupStatuses(name string, written []decisionSlice) []clusterv1beta1.DecisionGroupStatus {
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

// listedClusters returns the clusters of all slices.
func listedClusters(all []decisionSlice) []string {
	var clusters []string
	for _, s := range all {
		clusters = append(clusters, s.Clusters...)
	}
	return clusters
}
