// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// choice is what one Placement of a replica set has chosen.
type choice struct {
	Placement string
	// Missing says that there is no such Placement.
	Missing bool
	// Problems are what is wrong with the strategy.
	Problems field.ErrorList
	Strategy rollout.Strategy
	// Settled says that the decisions are complete: a cluster that they do not list
	// is not chosen. While they are being written, it may be.
	Settled bool
	// Groups are the decision groups, without clusters that an earlier Placement of
	// the replica set has chosen, too.
	Groups []rollout.ClusterGroup
	// Clusters is how many clusters are in Groups.
	Clusters int
}

// readChoices reads what the Placements of a replica set have chosen.
func (c *WorkReplicaSetController) readChoices(ctx context.Context, set *workv1alpha1.ManifestWorkReplicaSet) ([]choice, error) {
	taken := map[string]bool{}
	all := make([]choice, 0, len(set.Spec.PlacementRefs))
	for i, ref := range set.Spec.PlacementRefs {
		key := types.NamespacedName{Namespace: set.Namespace, Name: ref.Name}
		chosen := choice{Placement: ref.Name}
		chosen.Strategy, chosen.Problems = rollout.ParseStrategy(ref.RolloutStrategy, field.NewPath("spec", "placementRefs").Index(i).Child("rolloutStrategy"))
		placement := &clusterv1beta1.Placement{}
		if err := c.Client.Get(ctx, key, placement, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
			chosen.Missing = true
		} else if err != nil {
			return nil, fmt.Errorf("reading Placement %q: %w", key, err)
		}
		list := &clusterv1beta1.PlacementDecisionList{}
		err := c.Client.List(ctx, list, client.InNamespace(set.Namespace), client.MatchingFields{indexPlacement: ref.Name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing the PlacementDecisions of Placement %q: %w", key, err)
		}
		if !chosen.Missing {
			chosen.takeDecisions(placement, list.Items, taken)
		}
		all = append(all, chosen)
	}
	return all, nil
}

// takeDecisions takes the clusters of the decisions that nobody has taken.
func (c *choice) takeDecisions(placement *clusterv1beta1.Placement, decisions []clusterv1beta1.PlacementDecision, taken map[string]bool) {
	groups := map[int]*rollout.ClusterGroup{}
	listed := map[string]bool{}
	for i := range decisions {
		index, err := strconv.Atoi(decisions[i].Labels[clusterv1beta1.LabelDecisionGroupIndex])
		if err != nil {
			index = 0 // someone wrote it by hand
		}
		if groups[index] == nil {
			groups[index] = &rollout.ClusterGroup{Name: decisions[i].Labels[clusterv1beta1.LabelDecisionGroupName]}
		}
		for _, decision := range decisions[i].Status.Decisions {
			listed[decision.ClusterName] = true
			groups[index].Clusters = append(groups[index].Clusters, decision.ClusterName)
		}
	}
	byHand := placement.Annotations[clusterv1beta1.AnnotationSchedulingDisable] == "true"
	// A Placement that was created a moment ago, perhaps anew, lists nobody yet.
	decided := meta.FindStatusCondition(placement.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied) != nil
	c.Settled = byHand || decided && len(listed) == int(placement.Status.NumberOfSelectedClusters)
	for _, index := range slices.Sorted(maps.Keys(groups)) {
		group := rollout.ClusterGroup{Name: groups[index].Name}
		slices.Sort(groups[index].Clusters)
		for _, cluster := range groups[index].Clusters {
			if !taken[cluster] {
				taken[cluster] = true
				group.Clusters = append(group.Clusters, cluster)
			}
		}
		c.Clusters += len(group.Clusters)
		c.Groups = append(c.Groups, group)
	}
}
