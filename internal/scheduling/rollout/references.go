// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

const (
	// PlacementsMax is how many Placements a replica set may have. Every one has all groups of its own
	// once more in memory. The schema has no such bound, as OCM's has none.
	PlacementsMax = 64
	// MandatoryGroupsMax is how many mandatory groups each of them may have.
	MandatoryGroupsMax = 1024
)

// CheckReferences returns what a replica set refers to more of than it may: Placements, or mandatory groups of one.
func CheckReferences(refs []workv1alpha1.LocalPlacementReference) (problems field.ErrorList) {
	const unknown = -1 // how many there are, as a cache has not all
	path := field.NewPath("spec", "placementRefs")
	if len(refs) > PlacementsMax {
		problems = append(problems, field.TooMany(path, unknown, PlacementsMax))
	}
	for i := range refs {
		for _, groups := range mandatoryFields(&refs[i].RolloutStrategy) {
			if len(groups.MandatoryDecisionGroups.MandatoryDecisionGroups) > MandatoryGroupsMax {
				problems = append(problems, field.TooMany(path.Index(i).Child("rolloutStrategy", groups.name, "mandatoryDecisionGroups"), unknown, MandatoryGroupsMax))
			}
		}
	}
	return problems
}

// CutReferences returns the references of a replica set for a cache, and cuts their groups: it keeps one more
// than there may be, by which CheckReferences knows that there are too many.
func CutReferences(refs []workv1alpha1.LocalPlacementReference) []workv1alpha1.LocalPlacementReference {
	refs = cutList(refs, PlacementsMax)
	for i := range refs {
		for _, groups := range mandatoryFields(&refs[i].RolloutStrategy) {
			groups.MandatoryDecisionGroups.MandatoryDecisionGroups = cutList(groups.MandatoryDecisionGroups.MandatoryDecisionGroups, MandatoryGroupsMax)
		}
	}
	return refs
}

// cutList returns the first items of a list that has more than one too many. What it returns does not keep
// the others in memory.
func cutList[T any](all []T, most int) []T {
	if len(all) <= most+1 {
		return all
	}
	return slices.Clone(all[:most+1])
}

// mandatoryField is a field of a strategy that has mandatory groups, and what it has.
type mandatoryField struct {
	name string
	*clusterv1alpha1.MandatoryDecisionGroups
}

// mandatoryFields returns where a strategy has mandatory groups, be they of its type or not.
func mandatoryFields(strategy *clusterv1alpha1.RolloutStrategy) (all []mandatoryField) {
	if strategy.Progressive != nil {
		all = append(all, mandatoryField{"progressive", &strategy.Progressive.MandatoryDecisionGroups})
	}
	if strategy.ProgressivePerGroup != nil {
		all = append(all, mandatoryField{"progressivePerGroup", &strategy.ProgressivePerGroup.MandatoryDecisionGroups})
	}
	return all
}
