// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet reads what clusters are chosen by, as far as the user may, and
// names what the user may not read.
package fleet

import (
	"context"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// Needs are what matters besides the clusters and the sets.
type Needs struct {
	// Scores are those of add-ons, and Counts how many placements have chosen each
	// cluster. Both take a list of all namespaces.
	Scores, Counts bool
}

// NeedsOf returns what matters to a Placement.
func NeedsOf(p *clusterv1beta1.Placement) Needs {
	policy := p.Spec.PrioritizerPolicy
	needs := Needs{Counts: policy.Mode != clusterv1beta1.PrioritizerPolicyModeExact}
	for _, c := range policy.Configurations {
		if c.ScoreCoordinate != nil {
			needs.Scores = needs.Scores || c.ScoreCoordinate.AddOn != nil
			needs.Counts = needs.Counts || c.ScoreCoordinate.BuiltIn == "Balance"
		}
	}
	for _, predicate := range p.Spec.Predicates {
		for _, text := range predicate.RequiredClusterSelector.CelSelector.CelExpressions {
			needs.Scores = needs.Scores || strings.Contains(text, "scores")
		}
	}
	return needs
}

// MergeNeeds returns what matters to either.
func (n Needs) MergeNeeds(other Needs) Needs {
	return Needs{Scores: n.Scores || other.Scores, Counts: n.Counts || other.Counts}
}

// NamespaceState is what clusters are chosen by in one namespace.
type NamespaceState struct {
	Clusters view.Fleet
	// Bindings are those of the namespace whose sets may be read, and Sets these.
	Bindings []clusterv1beta2.ManagedClusterSetBinding
	Sets     map[string]*clusterv1beta2.ManagedClusterSet
	// Decisions are those of the namespace.
	Decisions []clusterv1beta1.PlacementDecision
	// Unread says what the user may not read, and what follows from that.
	Unread []string
}

// ReadNamespaceState reads the state of a namespace. Clusters and bindings have to be
// readable; what else is not is named in the state.
func ReadNamespaceState(ctx context.Context, c client.Client, namespace string, needs Needs) (*NamespaceState, error) {
	s := &NamespaceState{Sets: map[string]*clusterv1beta2.ManagedClusterSet{}}
	clusters, err := hub.ListAllPages(ctx, c, func(l *clusterv1.ManagedClusterList) []clusterv1.ManagedCluster { return l.Items })
	if err != nil {
		return nil, err
	}
	bindings, err := hub.ListAllPages(ctx, c,
		func(l *clusterv1beta2.ManagedClusterSetBindingList) []clusterv1beta2.ManagedClusterSetBinding {
			return l.Items
		}, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	s.Bindings = bindings
	if err := s.ReadSets(ctx, c); err != nil {
		return nil, err
	}
	counts, err := s.readDecisions(ctx, c, namespace, needs.Counts)
	if err != nil {
		return nil, err
	}
	scores, err := s.readScores(ctx, c, needs.Scores)
	if err != nil {
		return nil, err
	}
	known := make([]view.Cluster, 0, len(clusters))
	for i := range clusters {
		cluster := view.FromCluster(&clusters[i], nil)
		cluster.Decisions, cluster.Scores = counts[cluster.Name], scores[cluster.Name]
		known = append(known, cluster)
	}
	s.Clusters = view.NewFleet(known...)
	return s, nil
}

// ReadSets reads those sets that are bound and not known yet. One that is not
// there is left out.
func (s *NamespaceState) ReadSets(ctx context.Context, c client.Client) error {
	var known []clusterv1beta2.ManagedClusterSetBinding
	for i := range s.Bindings {
		name := s.Bindings[i].Spec.ClusterSet
		set := &clusterv1beta2.ManagedClusterSet{}
		if s.Sets[name] != nil {
			known = append(known, s.Bindings[i])
			continue
		}
		err := c.Get(ctx, client.ObjectKey{Name: name}, set)
		switch {
		case err == nil:
			s.Sets[name] = set
		case !apierrors.IsNotFound(err):
			if err := s.recordUnread(err, "ManagedClusterSet "+name, "its clusters do not count here"); err != nil {
				return err
			}
			continue
		}
		known = append(known, s.Bindings[i])
	}
	s.Bindings = known
	return nil
}

// readDecisions reads the decisions of the namespace, and returns how many
// decisions of all namespaces list each cluster.
func (s *NamespaceState) readDecisions(ctx context.Context, c client.Client, namespace string, everywhere bool) (map[string]int, error) {
	items := func(l *clusterv1beta1.PlacementDecisionList) []clusterv1beta1.PlacementDecision { return l.Items }
	var decisions []clusterv1beta1.PlacementDecision
	var err error
	if everywhere {
		decisions, err = hub.ListAllPages(ctx, c, items)
		if err != nil {
			everywhere = false
			if err := s.recordUnread(err, "PlacementDecisions of other namespaces", "Balance counts only those of namespace "+namespace+" here"); err != nil {
				return nil, err
			}
		}
	}
	if !everywhere {
		decisions, err = hub.ListAllPages(ctx, c, items, client.InNamespace(namespace))
		if err != nil {
			return nil, s.recordUnread(err, "PlacementDecisions", "this is what would be chosen if nothing were chosen yet")
		}
	}
	counts := map[string]int{}
	for i := range decisions {
		for _, d := range decisions[i].Status.Decisions {
			counts[d.ClusterName]++
		}
		if decisions[i].Namespace == namespace {
			s.Decisions = append(s.Decisions, decisions[i])
		}
	}
	return counts, nil
}

// readScores returns the scores of add-ons by the names of the clusters.
func (s *NamespaceState) readScores(ctx context.Context, c client.Client, needed bool) (map[string]map[view.ScoreName]view.Score, error) {
	if !needed {
		return nil, nil
	}
	list, err := hub.ListAllPages(ctx, c,
		func(l *clusterv1alpha1.AddOnPlacementScoreList) []clusterv1alpha1.AddOnPlacementScore { return l.Items })
	if err != nil {
		return nil, s.recordUnread(err, "AddOnPlacementScores", "the scores of add-ons are 0 here")
	}
	scores := map[string]map[view.ScoreName]view.Score{}
	for i := range list {
		cluster := list[i].Namespace
		if scores[cluster] == nil {
			scores[cluster] = map[view.ScoreName]view.Score{}
		}
		maps.Copy(scores[cluster], view.ScoresOf(&list[i]))
	}
	return scores, nil
}

// recordUnread notes that the user may not read something. Other errors are returned.
func (s *NamespaceState) recordUnread(err error, what, consequence string) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	s.Unread = append(s.Unread, fmt.Sprintf("%s (%s)", what, consequence))
	return nil
}

// BoundSets returns the sets that are bound to the namespace, and what is wrong with
// bindings that do not count.
func (s *NamespaceState) BoundSets() (bound []scheduler.ClusterSet, problems []string) {
	for i := range s.Bindings {
		binding := &s.Bindings[i]
		set, found := s.Sets[binding.Spec.ClusterSet]
		if !found {
			problems = append(problems, fmt.Sprintf("ManagedClusterSetBinding %s does not count: ManagedClusterSet %q was not found", binding.Name, binding.Spec.ClusterSet))
			continue
		}
		selector, err := view.SetSelector(set)
		if err != nil {
			problems = append(problems, fmt.Sprintf("ManagedClusterSetBinding %s does not count: %v", binding.Name, err))
			continue
		}
		bound = append(bound, scheduler.ClusterSet{Name: set.Name, Clusters: selector})
	}
	return bound, problems
}
