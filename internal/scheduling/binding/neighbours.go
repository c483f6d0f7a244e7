// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// NeighboursOfBinding returns where the workloads are that the object of a binding is kept
// together with, or apart from, by the bindings of the same namespace and others.
func NeighboursOfBinding(b workv1alpha2.Binding, others []workv1alpha2.Binding) scheduler.Neighbours {
	mine := b.BindingSpec().WorkloadAffinityGroups
	if mine == nil {
		return scheduler.Neighbours{}
	}
	beside := scheduler.Neighbours{Together: map[string]int{}, Apart: map[string]int{}}
	for _, other := range others {
		theirs := other.BindingSpec().WorkloadAffinityGroups
		if theirs == nil || other.GetNamespace() != b.GetNamespace() || SameObject(other, b) {
			continue
		}
		for _, target := range other.BindingSpec().Clusters {
			if mine.AffinityGroup != "" && theirs.AffinityGroup == mine.AffinityGroup {
				beside.Together[target.Name]++
			}
			if mine.AntiAffinityGroup != "" && theirs.AntiAffinityGroup == mine.AntiAffinityGroup {
				beside.Apart[target.Name]++
			}
		}
	}
	return beside
}

// SameObject reports whether two bindings are of the same object.
func SameObject(a, b workv1alpha2.Binding) bool {
	x := a.BindingSpec().Resource
	y := b.BindingSpec().Resource
	return x.APIVersion == y.APIVersion && x.Kind == y.Kind && x.Namespace == y.Namespace && x.Name == y.Name
}
