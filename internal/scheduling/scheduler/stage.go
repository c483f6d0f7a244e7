// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

// FilterStage is which clusters were left after a filter and those before it.
type FilterStage struct {
	Filter string
	// Clusters are in the order of names.
	Clusters []string
}

// FilterStages returns which clusters of the sets were left after each filter that
// the user can set: Predicate and then TaintToleration, as OCM calls them.
func (r ScheduleResult) FilterStages() []FilterStage {
	stages := []FilterStage{{Filter: predicateFilter{}.pluginName()}, {Filter: taintFilter{}.pluginName()}}
	for i, v := range r.verdicts {
		name := r.round.fleet.ClusterAt(i).Name
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
