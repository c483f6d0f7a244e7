// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

// Stage is which clusters were left after a filter and those before it.
type Stage struct {
	Filter string
	// Clusters are in the order of names.
	Clusters []string
}

// Stages returns which clusters of the sets were left after each filter that
// the user can set: Predicate and then TaintToleration, as OCM calls them.
func (r Result) Stages() []Stage {
	stages := []Stage{{Filter: predicateFilter{}.name()}, {Filter: taintFilter{}.name()}}
	for i, v := range r.verdicts {
		name := r.round.fleet.At(i).Name
		switch v.code {
		case codeDeleting, codeSet, codePredicate:
		case codeTaint:
			stages[0].Clusters = append(stages[0].Clusters, name)
		default:
			stages[0].Clusters = append(stages[0].Clusters, name)
			stages[1].Clusters = append(stages[1].Clusters, name)
		}
	}
	return stages
}
