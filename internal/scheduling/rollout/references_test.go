// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"testing"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// TestReferencesAreBounded has as many Placements and mandatory groups as there may be, and more: of these, a cache keeps
// one too many, and all that is said of them is the same.
func TestReferencesAreBounded(t *testing.T) {
	groups := func(n int) clusterv1alpha1.MandatoryDecisionGroups {
		return clusterv1alpha1.MandatoryDecisionGroups{MandatoryDecisionGroups: make([]clusterv1alpha1.MandatoryDecisionGroup, n)}
	}
	of := func(placements, inProgressive, perGroup int) []workv1alpha1.LocalPlacementReference {
		refs := make([]workv1alpha1.LocalPlacementReference, placements)
		refs[0].RolloutStrategy.Progressive = &clusterv1alpha1.RolloutProgressive{MandatoryDecisionGroups: groups(inProgressive)}
		refs[0].RolloutStrategy.ProgressivePerGroup = &clusterv1alpha1.RolloutProgressivePerGroup{MandatoryDecisionGroups: groups(perGroup)}
		return refs
	}
	for name, tc := range map[string]struct {
		refs []workv1alpha1.LocalPlacementReference
		want []string
	}{
		"as many as there may be": {refs: of(PlacementsMax, MandatoryGroupsMax, MandatoryGroupsMax)},
		"Placements":              {refs: of(33_700, 0, 0), want: []string{"spec.placementRefs"}},
		"groups of both types": {refs: of(1, 500_000, MandatoryGroupsMax+1), want: []string{
			"spec.placementRefs[0].rolloutStrategy.progressive.mandatoryDecisionGroups",
			"spec.placementRefs[0].rolloutStrategy.progressivePerGroup.mandatoryDecisionGroups",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := problemFields(tc.refs); !slices.Equal(got, tc.want) {
				t.Errorf("too many are %v, want %v", got, tc.want)
			}
			cut := CutReferences(tc.refs)
			if got := problemFields(cut); !slices.Equal(got, tc.want) {
				t.Errorf("too many are %v of what is kept, want %v", got, tc.want)
			}
			if is := cap(cut); is > 2*PlacementsMax {
				t.Errorf("%d Placements are kept", is)
			}
			for _, kept := range mandatoryFields(&cut[0].RolloutStrategy) {
				if is := cap(kept.MandatoryDecisionGroups.MandatoryDecisionGroups); is > 2*MandatoryGroupsMax {
					t.Errorf("%s: %d groups are kept", kept.name, is)
				}
			}
		})
	}
}

func problemFields(refs []workv1alpha1.LocalPlacementReference) (fields []string) {
	for _, problem := range CheckReferences(refs) {
		fields = append(fields, problem.Field)
	}
	return fields
}
