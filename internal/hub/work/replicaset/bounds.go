// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// placementsMax and mandatoryMax are how many Placements a replica set may have, and how many mandatory
// groups each of them, as the schema says. Every Placement has all groups of its own once more in memory.
const placementsMax, mandatoryMax = 64, 1024

// SlimReplicaSet cuts the lists of a replica set that was stored before the schema had bounds, for a cache: to
// one item more than they may have, by which the controller knows them.
func SlimReplicaSet(set *workv1alpha1.ManifestWorkReplicaSet) {
	set.ManagedFields = nil
	set.Spec.PlacementRefs = cutList(set.Spec.PlacementRefs, placementsMax)
	for i := range set.Spec.PlacementRefs {
		for _, groups := range mandatoryGroups(&set.Spec.PlacementRefs[i].RolloutStrategy) {
			groups.MandatoryDecisionGroups = cutList(groups.MandatoryDecisionGroups, mandatoryMax)
		}
	}
}

// cutList returns the first items of a list that has more than one too many. What it returns does not keep
// the others in memory.
func cutList[T any](all []T, most int) []T {
	if len(all) <= most+1 {
		return all
	}
	return slices.Clone(all[:most+1])
}

// mandatoryGroups returns the mandatory groups that a strategy has, for any type, by its field.
func mandatoryGroups(strategy *clusterv1alpha1.RolloutStrategy) map[string]*clusterv1alpha1.MandatoryDecisionGroups {
	all := map[string]*clusterv1alpha1.MandatoryDecisionGroups{}
	if strategy.Progressive != nil {
		all["progressive"] = &strategy.Progressive.MandatoryDecisionGroups
	}
	if strategy.ProgressivePerGroup != nil {
		all["progressivePerGroup"] = &strategy.ProgressivePerGroup.MandatoryDecisionGroups
	}
	return all
}

// boundProblems returns what a replica set has more of than it may.
func boundProblems(set *workv1alpha1.ManifestWorkReplicaSet) (problems field.ErrorList) {
	const unknown = -1 // how many there are, as the cache has not all
	refs := field.NewPath("spec", "placementRefs")
	if len(set.Spec.PlacementRefs) > placementsMax {
		problems = append(problems, field.TooMany(refs, unknown, placementsMax))
	}
	for i := range set.Spec.PlacementRefs {
		for part, groups := range mandatoryGroups(&set.Spec.PlacementRefs[i].RolloutStrategy) {
			if len(groups.MandatoryDecisionGroups) > mandatoryMax {
				problems = append(problems, field.TooMany(refs.Index(i).Child("rolloutStrategy", part, "mandatoryDecisionGroups"), unknown, mandatoryMax))
			}
		}
	}
	return problems
}

// boundsStatus is the status of a replica set that has too much.
func boundsStatus(problems field.ErrorList) replicaSetStatus {
	return replicaSetStatus{Conditions: []metav1.Condition{{
		Type: workv1alpha1.ConditionPlacementVerified, Status: metav1.ConditionFalse, Reason: workv1alpha1.ReasonNotAsExpected,
		Message: problems[0].Error() + ". No ManifestWork is changed until this is corrected",
	}}}
}
