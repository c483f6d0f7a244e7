// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/untrusted/labelselector"
)

// Bounds of a Placement, of which whoever may write one can make a megabyte. What is
// compiled of it takes many times that memory for as long as the Placement is there, and
// each cluster is compared with it.
const (
	// listMax is how many predicates, tolerations, prioritizers and named groups there may
	// be of each.
	listMax = 100
	// expressionsMax is how many CEL expressions there may be in all predicates together,
	// and expressionsBytesMax how long these may be.
	expressionsMax      = 100
	expressionsBytesMax = 16 << 10
)

// checkBounds returns of what a Placement has too much. Nothing of it is compiled then.
func checkBounds(spec *clusterv1beta1.PlacementSpec) field.ErrorList {
	path := field.NewPath("spec")
	groups := spec.DecisionStrategy.GroupStrategy.DecisionGroups
	var problems field.ErrorList
	for _, list := range []struct {
		path *field.Path
		has  int
	}{
		{path.Child("predicates"), len(spec.Predicates)},
		{path.Child("tolerations"), len(spec.Tolerations)},
		{path.Child("prioritizerPolicy", "configurations"), len(spec.PrioritizerPolicy.Configurations)},
		{path.Child("decisionStrategy", "groupStrategy", "decisionGroups"), len(groups)},
	} {
		if list.has > listMax {
			problems = append(problems, field.TooMany(list.path, list.has, listMax))
		}
	}
	terms := 0
	expressions := 0
	bytes := 0
	for i := range spec.Predicates {
		selector := &spec.Predicates[i].RequiredClusterSelector
		terms += countSelectorTerms(&selector.LabelSelector, selector.ClaimSelector)
		expressions += len(selector.CelSelector.CelExpressions)
		for _, text := range selector.CelSelector.CelExpressions {
			bytes += len(text)
		}
	}
	for i := range groups {
		terms += countSelectorTerms(&groups[i].ClusterSelector.LabelSelector, groups[i].ClusterSelector.ClaimSelector)
	}
	if expressions > expressionsMax || bytes > expressionsBytesMax {
		problem := field.TooMany(path.Child("predicates"), expressions, expressionsMax)
		problem.Detail = fmt.Sprintf("there are %d CEL expressions of together %d bytes, and may be %d of %d: use fewer, or select by labels",
			expressions, bytes, expressionsMax, expressionsBytesMax)
		problems = append(problems, problem)
	}
	return append(problems, labelselector.CheckTerms(path, terms)...)
}

// BoundLists leaves of each list that has more than it may have one element more than that: a Placement that has too
// much still has, and not half a million empty elements in memory.
func BoundLists(spec *clusterv1beta1.PlacementSpec) {
	groups := &spec.DecisionStrategy.GroupStrategy
	spec.Predicates = firstElements(spec.Predicates)
	spec.Tolerations = firstElements(spec.Tolerations)
	spec.PrioritizerPolicy.Configurations = firstElements(spec.PrioritizerPolicy.Configurations)
	groups.DecisionGroups = firstElements(groups.DecisionGroups)
}

func firstElements[T any](list []T) []T {
	if len(list) <= listMax+1 {
		return list
	}
	return slices.Clone(list[:listMax+1])
}

// countSelectorTerms counts what the labels and claims of a cluster are compared with.
func countSelectorTerms(byLabels *metav1.LabelSelector, byClaims clusterv1beta1.ClusterClaimSelector) int {
	wanted := claimLabelSelector(byClaims)
	return labelselector.CountTerms(byLabels, &wanted)
}
