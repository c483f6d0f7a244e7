// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

func TestStagesSayWhoWasLeftAfterEachFilter(t *testing.T) {
	prod := map[string]string{"env": "prod", "fleet": "yes"}
	fleet := view.NewFleet(
		view.Cluster{Name: "chosen", Labels: prod, Decisions: 0},
		view.Cluster{Name: "deleting", Labels: prod, Deleting: true},
		view.Cluster{Name: "elsewhere", Labels: map[string]string{"env": "prod"}},
		view.Cluster{Name: "lower", Labels: prod, Decisions: 5},
		view.Cluster{Name: "tainted", Labels: prod, Taints: []view.Taint{{Key: "gpu", Effect: view.NoSelect}}},
		view.Cluster{Name: "test", Labels: map[string]string{"env": "test", "fleet": "yes"}},
	)
	spec := RequestSpec{
		Sets:       []ClusterSet{{Name: "fleet", Clusters: labels.SelectorFromSet(labels.Set{"fleet": "yes"})}},
		Predicates: []Predicate{{Labels: selects("env", "prod")}}, Count: new(1),
		Scorers: []WeightedScorer{{Scorer: Balance{}, Weight: 1}},
	}
	want := []FilterStage{
		{Filter: "Predicate", Clusters: []string{"chosen", "lower", "tainted"}},
		{Filter: "TaintToleration", Clusters: []string{"chosen", "lower"}},
	}
	if diff := cmp.Diff(want, ScheduleClusters(fleet, compiled(t, spec), nil, noon).FilterStages()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
