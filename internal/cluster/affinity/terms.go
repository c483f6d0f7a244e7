// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/untrusted/labelselector"
)

// groupsMax is how many groups of clusters a placement may have, overflow groups included.
// While one after the other is tried for replicas that none has room for, nobody else's
// replicas are placed.
const groupsMax = 64

// TolerationsMax is how many tolerations a placement may have, with each of which the taints of each
// cluster are compared.
const TolerationsMax = 100

// CheckPlacement returns what is wrong with a placement that has more terms, in all of
// its affinities together, or more tolerations than each cluster can be compared with.
func CheckPlacement(placement *policyv1alpha1.Placement, path *field.Path) field.ErrorList {
	if many := len(placement.ClusterTolerations); many > TolerationsMax {
		return field.ErrorList{field.TooMany(path.Child("clusterTolerations"), many, TolerationsMax)}
	}
	groups := len(placement.ClusterAffinities)
	for i := range placement.ClusterAffinities {
		groups += len(placement.ClusterAffinities[i].OverflowAffinities)
	}
	if groups > groupsMax {
		mistake := field.TooMany(path.Child("clusterAffinities"), groups, groupsMax)
		mistake.Detail += ": these and their overflowAffinities are tried one after the other, with all clusters; use fewer, or select more clusters by each"
		return field.ErrorList{mistake}
	}
	terms := termsOf(placement.ClusterAffinity)
	for i := range placement.ClusterAffinities {
		group := &placement.ClusterAffinities[i]
		terms += termsOf(&group.ClusterAffinity)
		for j := range group.OverflowAffinities {
			terms += termsOf(&group.OverflowAffinities[j].ClusterAffinity)
		}
	}
	if s := placement.ReplicaScheduling; s != nil && s.WeightPreference != nil {
		for i := range s.WeightPreference.StaticWeightList {
			terms += termsOf(&s.WeightPreference.StaticWeightList[i].TargetCluster)
		}
	}
	return checkTermCount(path, terms)
}

// CheckTargets does so for the clusters of an override policy.
func CheckTargets(spec *policyv1alpha1.OverrideSpec, path *field.Path) field.ErrorList {
	terms := termsOf(spec.TargetCluster)
	for i := range spec.OverrideRules {
		terms += termsOf(spec.OverrideRules[i].TargetCluster)
	}
	return checkTermCount(path, terms)
}

func checkTermCount(path *field.Path, terms int) field.ErrorList {
	problems := labelselector.CheckTerms(path, terms)
	for _, problem := range problems {
		problem.Detail += fmt.Sprintf("; %d names of clusters count as one", namesATerm)
	}
	return problems
}

// namesATerm is how many names of clusters count as one term: a cluster is looked up among
// them, and not compared with each, but they are read and sorted.
const namesATerm = 10

// termsOf counts what clusters are compared with; nil has nothing.
func termsOf(a *policyv1alpha1.ClusterAffinity) int {
	if a == nil {
		return 0
	}
	terms := labelselector.CountTerms(a.LabelSelector)
	if a.FieldSelector != nil {
		for _, e := range a.FieldSelector.MatchExpressions {
			terms += len(e.Values)
		}
	}
	terms += (len(a.ClusterNames) + len(a.ExcludeClusters) + namesATerm - 1) / namesATerm
	return max(1, terms) // to select all is compared as well
}
