// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// EvaluationAnswer is what the endpoint answers, in the shape that OCM's has.
type EvaluationAnswer struct {
	Placement *clusterv1beta1.Placement `json:"placement,omitempty"`
	// Filtered says which clusters of the sets were left after each filter.
	Filtered []Filtered `json:"filteredPipelineResults,omitempty"`
	// Prioritized has the scores by prioritizer.
	Prioritized []Prioritized `json:"prioritizeResults,omitempty"`
	// Aggregated are the weighted sums of the scores, the best first.
	Aggregated []ClusterScore `json:"aggregatedScores,omitempty"`
	// Error is why there is no answer, or what is wrong with the Placement.
	Error string `json:"error,omitempty"`
}

// Filtered are the clusters that were left after the filters of the name, which
// are separated by commas.
type Filtered struct {
	Name     string   `json:"name"`
	Clusters []string `json:"filteredClusters"`
}

// Prioritized are the scores of a prioritizer by cluster.
type Prioritized struct {
	Name   string           `json:"name"`
	Weight int32            `json:"weight"`
	Scores map[string]int64 `json:"scores"`
}

// ClusterScore is the weighted sum of a cluster's scores.
type ClusterScore struct {
	ClusterName string `json:"clusterName"`
	Score       int64  `json:"score"`
}

// newEvaluationAnswer puts a result into OCM's shape.
func newEvaluationAnswer(p *clusterv1beta1.Placement, result scheduler.ScheduleResult) EvaluationAnswer {
	answer := EvaluationAnswer{Placement: stripPlacement(p)}
	var names []string
	for _, stage := range result.FilterStages() {
		names = append(names, stage.Filter)
		left := append([]string{}, stage.Clusters...) // an empty list is [], not null
		answer.Filtered = append(answer.Filtered, Filtered{Name: strings.Join(names, ","), Clusters: left})
	}
	ranks := map[string]int{}
	for verdict := range result.ClusterVerdicts() {
		if verdict.Rank == 0 {
			continue
		}
		ranks[verdict.Cluster] = verdict.Rank
		answer.Aggregated = append(answer.Aggregated, ClusterScore{verdict.Cluster, verdict.Score})
		for _, score := range verdict.Scores {
			answer.addScore(verdict.Cluster, score)
		}
	}
	slices.SortFunc(answer.Aggregated, func(a, b ClusterScore) int { return cmp.Compare(ranks[a.ClusterName], ranks[b.ClusterName]) })
	if result.Problem != nil {
		answer.Error = result.Problem.Error()
	}
	return answer
}

// addScore adds the score of a cluster to those of its prioritizer.
func (a *EvaluationAnswer) addScore(cluster string, score scheduler.NamedScore) {
	n := slices.IndexFunc(a.Prioritized, func(p Prioritized) bool { return p.Name == score.Scorer })
	if n < 0 {
		n = len(a.Prioritized)
		weight := min(max(score.Weight, scheduler.WeightMin), scheduler.WeightMax)
		a.Prioritized = append(a.Prioritized, Prioritized{Name: score.Scorer, Weight: int32(weight), Scores: map[string]int64{}})
	}
	a.Prioritized[n].Scores[cluster] = int64(score.Score)
}

// stripPlacement returns a Placement without status and what the API server adds.
func stripPlacement(p *clusterv1beta1.Placement) *clusterv1beta1.Placement {
	return &clusterv1beta1.Placement{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1beta1.GroupVersion.String(), Kind: "Placement"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Annotations: p.Annotations},
		Spec:       p.Spec,
	}
}
