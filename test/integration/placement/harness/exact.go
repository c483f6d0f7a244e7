// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness is a hub with a fleet and placements of all sorts, whose controllers tests
// start and kill.
package harness

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// DiffersFromDeclared returns an error as long as the decisions are not exactly what the
// placements declare, or a placement does not say what they are.
func (w *world) DiffersFromDeclared() error {
	clusters := &clusterv1.ManagedClusterList{}
	placements, decisions := &clusterv1beta1.PlacementList{}, &clusterv1beta1.PlacementDecisionList{}
	if err := errors.Join(
		w.List(w.Context(), clusters, client.MatchingLabels{fleetLabel: w.FleetName}),
		w.List(w.Context(), placements, client.InNamespace(w.FleetName)), w.List(w.Context(), decisions, client.InNamespace(w.FleetName)),
	); err != nil {
		return err
	}
	var known []view.Cluster
	for i := range clusters.Items {
		known = append(known, view.FromCluster(&clusters.Items[i], nil))
	}
	fleet := view.NewFleet(known...)
	var wrong []error
	left := len(decisions.Items)
	for i := range placements.Items {
		p := &placements.Items[i]
		own := slices.DeleteFunc(slices.Clone(decisions.Items), func(d clusterv1beta1.PlacementDecision) bool { return !metav1.IsControlledBy(&d, p) })
		left -= len(own)
		wrong = append(wrong, w.compare(p, own, fleet), compareStatus(p, own), compareGroups(p, own, fleet))
	}
	if left > 0 {
		wrong = append(wrong, fmt.Errorf("%d decisions are of no placement", left))
	}
	return errors.Join(wrong...)
}

// compare sees that the decisions list each cluster that the placement declares
// once, and that the scheduler would choose the same again.
func (w *world) compare(p *clusterv1beta1.Placement, decisions []clusterv1beta1.PlacementDecision, fleet view.Fleet) error {
	eligible := map[string]bool{}
	for i := range fleet.Len() {
		if c := fleet.ClusterAt(i); len(p.Spec.Predicates) == 0 || c.Labels[EnvLabel] == Prod {
			eligible[c.Name] = true
		}
	}
	want := len(eligible)
	if p.Spec.NumberOfClusters != nil {
		want = min(want, few)
	}
	var listed []string
	for i := range decisions {
		for _, d := range decisions[i].Status.Decisions {
			listed = append(listed, d.ClusterName)
		}
	}
	slices.Sort(listed)
	if twice := len(listed) - len(slices.Compact(slices.Clone(listed))); twice > 0 {
		return fmt.Errorf("%d clusters are listed twice for %s: %v", twice, p.Name, listed)
	}
	for _, name := range listed {
		if !eligible[name] {
			return fmt.Errorf("%s is listed for %s and is not to be", name, p.Name)
		}
	}
	if len(listed) != want {
		return fmt.Errorf("%d clusters are listed for %s, want %d of %v", len(listed), p.Name, want, slices.Sorted(maps.Keys(eligible)))
	}
	selector, err := view.SetSelector(w.set)
	if err != nil {
		return err
	}
	request, problems := placement.CompilePlacement(p, []scheduler.ClusterSet{{Name: w.FleetName, Clusters: selector}})
	if len(problems) > 0 {
		return problems.ToAggregate()
	}
	if again := scheduler.ScheduleClusters(fleet, request.ClusterRequest, listed, time.Now()).Targets; !slices.Equal(again, listed) {
		return fmt.Errorf("%v are listed for %s, and the scheduler would choose %v", listed, p.Name, again)
	}
	return nil
}

// compareStatus sees that the placement says what the decisions are.
func compareStatus(p *clusterv1beta1.Placement, decisions []clusterv1beta1.PlacementDecision) error {
	var names, told []string
	clusters, counted := 0, 0
	for i := range decisions {
		names = append(names, decisions[i].Name)
		clusters += len(decisions[i].Status.Decisions)
	}
	for _, group := range p.Status.DecisionGroups {
		told = append(told, group.Decisions...)
		counted += int(group.ClustersCount)
	}
	slices.Sort(told)
	if slices.Sort(names); !slices.Equal(names, told) || counted != clusters || int(p.Status.NumberOfSelectedClusters) != clusters {
		return fmt.Errorf("the decisions of %s are %v with %d clusters, and its status is %+v", p.Name, names, clusters, p.Status)
	}
	satisfied := meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied)
	enough := p.Spec.NumberOfClusters == nil || clusters == few
	if satisfied == nil || satisfied.ObservedGeneration != p.Generation || (satisfied.Status == metav1.ConditionTrue) != enough {
		return fmt.Errorf("%d clusters are listed for %s, and its condition is %+v", clusters, p.Name, satisfied)
	}
	return nil
}

// compareGroups sees that each cluster is in a slice of its group, and that none
// is larger than the placement says.
func compareGroups(p *clusterv1beta1.Placement, decisions []clusterv1beta1.PlacementDecision, fleet view.Fleet) error {
	if len(p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups) == 0 {
		return nil
	}
	sizes := map[string]int{}
	for i := range decisions {
		labels := decisions[i].Labels
		sizes[labels[clusterv1beta1.LabelDecisionGroupIndex]] += len(decisions[i].Status.Decisions)
		for _, d := range decisions[i].Status.Decisions {
			c, found := fleet.ClusterNamed(d.ClusterName)
			if name := labels[clusterv1beta1.LabelDecisionGroupName]; !found || (name == Canary) != (c.Labels[RingLabel] == Canary) {
				return fmt.Errorf("%s with the labels %v is in group %q of %s", d.ClusterName, c.Labels, name, p.Name)
			}
		}
	}
	for index, size := range sizes {
		if size > groupSize {
			return fmt.Errorf("group %s of %s has %d clusters", index, p.Name, size)
		}
	}
	return nil
}
