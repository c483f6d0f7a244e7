// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

// many returns a list of n, each made with its index.
func many[T any](n int, one func(int) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = one(i)
	}
	return all
}

func predicate(selector clusterv1beta1.ClusterSelector) clusterv1beta1.ClusterPredicate {
	return clusterv1beta1.ClusterPredicate{RequiredClusterSelector: selector}
}

func expressions(n int, text string) clusterv1beta1.ClusterPredicate {
	return predicate(clusterv1beta1.ClusterSelector{CelSelector: clusterv1beta1.ClusterCelSelector{
		CelExpressions: many(n, func(int) string { return text }),
	}})
}

// oneOf selects by a label with one of n values.
func oneOf(n int) []metav1.LabelSelectorRequirement {
	return []metav1.LabelSelectorRequirement{{
		Key: "app", Operator: metav1.LabelSelectorOpIn, Values: many(n, func(i int) string { return fmt.Sprint(i) }),
	}}
}

// TestALargePlacementIsNotCompiled has Placements of a megabyte, as whoever may write
// Placements in a namespace can make them. Compiled, they would take gigabytes that stay,
// or minutes each time that clusters are chosen.
func TestALargePlacementIsNotCompiled(t *testing.T) {
	for name, c := range map[string]struct {
		want string
		spec clusterv1beta1.PlacementSpec
	}{
		"predicates": {"spec.predicates", clusterv1beta1.PlacementSpec{
			Predicates: many(2*listMax, func(int) clusterv1beta1.ClusterPredicate { return expressions(0, "") }),
		}},
		"tolerations": {"spec.tolerations", clusterv1beta1.PlacementSpec{
			Tolerations: many(2*listMax, func(int) clusterv1beta1.Toleration { return clusterv1beta1.Toleration{Operator: "Exists"} }),
		}},
		"prioritizers": {"spec.prioritizerPolicy.configurations", clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
			Configurations: many(10_000, func(i int) clusterv1beta1.PrioritizerConfig {
				return clusterv1beta1.PrioritizerConfig{Weight: 1, ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
					Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: "a", ScoreName: fmt.Sprint(i)},
				}}
			}),
		}}},
		"groups": {"spec.decisionStrategy.groupStrategy.decisionGroups", clusterv1beta1.PlacementSpec{DecisionStrategy: clusterv1beta1.DecisionStrategy{
			GroupStrategy: clusterv1beta1.GroupStrategy{DecisionGroups: many(2*listMax, func(int) clusterv1beta1.DecisionGroup { return clusterv1beta1.DecisionGroup{} })},
		}}},
		"expressions": {"spec.predicates", clusterv1beta1.PlacementSpec{
			Predicates: []clusterv1beta1.ClusterPredicate{expressions(2000, "true"), expressions(2000, "true")},
		}},
		"long expressions": {"spec.predicates", clusterv1beta1.PlacementSpec{
			Predicates: []clusterv1beta1.ClusterPredicate{expressions(4, strings.Repeat("true && ", 1000)+"true")},
		}},
		"values": {"spec", clusterv1beta1.PlacementSpec{
			Predicates: []clusterv1beta1.ClusterPredicate{predicate(clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchExpressions: oneOf(600)}})},
			DecisionStrategy: clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{DecisionGroups: []clusterv1beta1.DecisionGroup{{
				GroupName:       "g",
				ClusterSelector: clusterv1beta1.GroupClusterSelector{ClaimSelector: clusterv1beta1.ClusterClaimSelector{MatchExpressions: oneOf(600)}},
			}}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, problems := CompilePlacement(&clusterv1beta1.Placement{Spec: c.spec}, nil)
			runtime.ReadMemStats(&after)
			if len(problems) != 1 || problems[0].Type != field.ErrorTypeTooMany || problems[0].Field != c.want {
				t.Errorf("%d problems, want one that there is too much of %s", len(problems), c.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<10 {
				t.Errorf("to refuse it takes %d bytes: something was compiled", used)
			}
		})
	}
}

func TestAPlacementOfTheLargestSizeIsCompiled(t *testing.T) {
	p := &clusterv1beta1.Placement{}
	p.Spec.Predicates = many(listMax, func(int) clusterv1beta1.ClusterPredicate { return expressions(expressionsMax/listMax, "true") })
	p.Spec.Predicates[0].RequiredClusterSelector.LabelSelector.MatchExpressions = oneOf(1000)
	if _, problems := CompilePlacement(p, nil); len(problems) > 0 {
		t.Error(problems)
	}
}

// TestLongListsOfAPlacementAreNotKept has Placements of a megabyte of empty elements: what a cache keeps of each list
// is as long as it may be, and one more, for which it is refused.
func TestLongListsOfAPlacementAreNotKept(t *testing.T) {
	const much = 100_000
	p := &clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{
		Predicates: make([]clusterv1beta1.ClusterPredicate, much), Tolerations: make([]clusterv1beta1.Toleration, much),
		PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Configurations: make([]clusterv1beta1.PrioritizerConfig, much)},
		DecisionStrategy:  clusterv1beta1.DecisionStrategy{GroupStrategy: clusterv1beta1.GroupStrategy{DecisionGroups: make([]clusterv1beta1.DecisionGroup, much)}},
	}}
	BoundLists(&p.Spec)
	if kept := cap(p.Spec.Predicates) + cap(p.Spec.Tolerations) + cap(p.Spec.PrioritizerPolicy.Configurations) + cap(p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups); kept > 8*listMax {
		t.Errorf("there is room for %d elements of four lists of %d", kept, listMax)
	}
	if _, problems := CompilePlacement(p, nil); len(problems) != 4 {
		t.Errorf("got %v, want that four lists are too long", problems)
	}
}
