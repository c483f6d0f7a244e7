// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
)

// placementSources is what decides which works clusters get.
type placementSources struct {
	placements []clusterv1beta1.Placement
	decisions  []clusterv1beta1.PlacementDecision
	sets       []workv1alpha1.ManifestWorkReplicaSet
}

// listPlacementSources reads it. Of a kind that the hub does not know there is nothing.
func listPlacementSources(ctx context.Context, c client.Client) (placementSources, error) {
	placements := &clusterv1beta1.PlacementList{}
	decisions := &clusterv1beta1.PlacementDecisionList{}
	sets := &workv1alpha1.ManifestWorkReplicaSetList{}
	for _, list := range []client.ObjectList{placements, decisions, sets} {
		if err := c.List(ctx, list); err != nil && !apierrors.IsNotFound(err) {
			return placementSources{}, err
		}
	}
	return placementSources{placements.Items, decisions.Items, sets.Items}, nil
}

// placementNodes returns the placements with their decisions, the clusters that these
// list, and the works that replica sets have made there for the placement. The
// replica sets themselves come last.
func (all placementSources) placementNodes(clusters []clusterv1.ManagedCluster, works []workv1.ManifestWork) []treeNode {
	l := leaves{states: map[string]health.ReadinessState{}, works: map[string][]treeNode{}}
	for i := range clusters {
		l.states[clusters[i].Name] = health.ClusterReadiness(&clusters[i])
	}
	for i := range works {
		work := &works[i]
		namespace, _, made := strings.Cut(work.Labels[workv1.LabelManifestWorkReplicaSet], ".")
		if made {
			key := leafKey(namespace, work.Labels[workv1.LabelPlacementName], work.Namespace)
			l.works[key] = append(l.works[key], treeNode{name: "work " + work.Name, state: reasonOnly(health.WorkReadiness(work))})
		}
	}
	// By the label, so that each placement looks at its own decisions only.
	labelled := map[string][]*clusterv1beta1.PlacementDecision{}
	for i := range all.decisions {
		d := &all.decisions[i]
		key := d.Namespace + "/" + d.Labels[clusterv1beta1.LabelPlacement]
		labelled[key] = append(labelled[key], d)
	}
	var nodes, sets []treeNode
	for i := range all.placements {
		p := &all.placements[i]
		nodes = append(nodes, l.placementNode(p, labelled[p.Namespace+"/"+p.Name]))
	}
	for i := range all.sets {
		set := &all.sets[i]
		sets = append(sets, treeNode{
			name: "replicaset " + set.Namespace + "/" + set.Name, state: health.ReplicaSetReadiness(set), created: set.CreationTimestamp.Time, status: set.Status.Conditions,
		})
	}
	slices.SortStableFunc(nodes, byName)
	slices.SortStableFunc(sets, byName)
	return append(nodes, sets...)
}

// leaves are what stands below decisions. What else is known of a cluster or a
// work is shown in its own place.
type leaves struct {
	states map[string]health.ReadinessState // by cluster
	works  map[string][]treeNode            // by leafKey
}

func leafKey(namespace, placement, cluster string) string {
	return namespace + "/" + placement + "/" + cluster
}

// reasonOnly leaves only the reason of a state.
func reasonOnly(state health.ReadinessState) health.ReadinessState {
	state.Message = ""
	return state
}

// numbered is a decision with the number in its name.
type numbered struct {
	number   int
	decision *clusterv1beta1.PlacementDecision
}

func (l leaves) placementNode(p *clusterv1beta1.Placement, labelled []*clusterv1beta1.PlacementDecision) treeNode {
	var own []numbered
	for _, d := range labelled {
		if number, ours := placement.DecisionNumber(p, d); ours {
			own = append(own, numbered{number, d})
		}
	}
	slices.SortFunc(own, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	n := treeNode{name: "placement " + p.Namespace + "/" + p.Name, state: health.PlacementReadiness(p), created: p.CreationTimestamp.Time, status: p.Status.Conditions}
	for _, d := range own {
		n.children = append(n.children, l.decisionNode(p, d.decision))
	}
	return n
}

func (l leaves) decisionNode(p *clusterv1beta1.Placement, d *clusterv1beta1.PlacementDecision) treeNode {
	group := strings.TrimSpace(d.Labels[clusterv1beta1.LabelDecisionGroupIndex] + " " + d.Labels[clusterv1beta1.LabelDecisionGroupName])
	n := treeNode{name: "decision " + d.Name + " (group " + group + ")", state: health.ReadinessState{Ready: metav1.ConditionTrue}, created: d.CreationTimestamp.Time}
	for _, decision := range d.Status.Decisions {
		state, known := l.states[decision.ClusterName]
		if !known {
			state = health.ReadinessState{Ready: metav1.ConditionUnknown, Reason: noCluster}
		}
		n.children = append(n.children, treeNode{
			name: "cluster " + decision.ClusterName, state: reasonOnly(state), children: l.works[leafKey(p.Namespace, p.Name, decision.ClusterName)],
		})
	}
	return n
}
