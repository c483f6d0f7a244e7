// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// Bounds of a RequestSpec.
const (
	// WeightMin is the least weight of a scorer.
	WeightMin = -10
	// WeightMax is the greatest weight of a scorer.
	WeightMax = 10
	// SpreadConstraintsMax is how many spread constraints there may be.
	SpreadConstraintsMax = 8
)

// RequestSpec is a wish for clusters. A Path says where in the user's object something
// stands; errors of CompileRequest name it.
type RequestSpec struct {
	// Sets are those whose clusters may be chosen. nil is the whole fleet, and an
	// empty list is no cluster.
	Sets []ClusterSet
	// Predicates have to be met by a cluster, one of them at least. None are met by
	// every cluster.
	Predicates []Predicate
	// Tolerations say which taints do not matter.
	Tolerations []Toleration
	// Scorers say which clusters are better. Those of the same name add up.
	Scorers []WeightedScorer
	// Spread says how the clusters are to be spread over topologies.
	Spread []SpreadConstraint
	// Count is how many clusters are wanted, nil for all. It is not negative.
	Count *int
	// Ranked says that the scores are of interest even if all clusters are chosen.
	Ranked bool
}

// ClusterSet is a set of clusters.
type ClusterSet struct {
	Name string
	// Clusters selects them by their labels.
	Clusters labels.Selector
}

// Predicate is a condition that clusters have to meet, all of it.
type Predicate struct {
	Path *field.Path
	// Labels and Claims select clusters by what they are labelled with and what
	// they tell of themselves. The empty selector selects every cluster.
	Labels, Claims metav1.LabelSelector
	// Expressions are in CEL, and have to be true of variable managedCluster.
	// Its method scores returns what an AddOnPlacementScore says.
	Expressions []string
}

// WeightedScorer is a scorer, and how much it counts.
type WeightedScorer struct {
	// Path is where it stands, with its weight in the field of this name below.
	Path   *field.Path
	Scorer Scorer
	// Weight is from WeightMin to WeightMax. A scorer with weight 0 is not asked.
	Weight int
}

// ClusterRequest is a RequestSpec that was found to be right. It does not change, and may be
// used from several goroutines.
type ClusterRequest struct {
	filters []clusterFilter
	scorers []WeightedScorer
	spread  []SpreadConstraint
	count   int
	all     bool
	ranked  bool
	// observer is told of the plugins that run, if there is one.
	observer PluginObserver
}

// CompileRequest checks the RequestSpec and prepares it. Every error is the user's, and is
// about the field that its path names.
func CompileRequest(spec RequestSpec) (ClusterRequest, field.ErrorList) {
	var problems field.ErrorList
	predicates := predicateFilter{}
	for _, p := range spec.Predicates {
		compiled, errs := p.compilePredicate()
		predicates = append(predicates, compiled)
		problems = append(problems, errs...)
	}
	tolerations, errs := checkTolerations(spec.Tolerations, false)
	problems = append(problems, errs...)
	problems = append(problems, checkWeights(spec.Scorers)...)
	problems = append(problems, checkSpread(spec.Spread)...)
	request := ClusterRequest{
		filters: []clusterFilter{deletionFilter{}, setFilter{sets: spec.Sets, whole: spec.Sets == nil}, predicates, taintFilter{tolerations: tolerations}},
		spread:  spec.Spread, all: spec.Count == nil, ranked: spec.Ranked,
	}
	if spec.Count != nil {
		if request.count = *spec.Count; request.count < 0 {
			problems = append(problems, field.Invalid(field.NewPath("numberOfClusters"), request.count, "must not be negative"))
		}
	}
	for _, s := range spec.Scorers {
		if s.Weight != 0 {
			request.scorers = append(request.scorers, s)
		}
	}
	// A taint that prefers other clusters counts as much as a scorer of weight 1.
	request.scorers = append(request.scorers, WeightedScorer{Scorer: taintPreference(tolerations), Weight: 1})
	return request, problems
}

func checkWeights(scorers []WeightedScorer) field.ErrorList {
	var problems field.ErrorList
	for _, s := range scorers {
		if s.Weight < WeightMin || s.Weight > WeightMax {
			problems = append(problems, field.Invalid(s.Path.Child("weight"), s.Weight, fmt.Sprintf("must be from %d to %d", WeightMin, WeightMax)))
		}
	}
	return problems
}

// Plugin is a part of the scheduler that looks at clusters.
type Plugin struct {
	Kind PluginKind
	// Name is that of a filter or of a scorer. Expressions have none.
	Name string
}

// PluginKind tells what a Plugin does.
type PluginKind int

// The kinds.
const (
	// FilterPlugin says no to clusters.
	FilterPlugin PluginKind = iota
	// ScorePlugin is a Scorer.
	ScorePlugin
	// ExpressionPlugin evaluates an expression for one cluster, within a filter.
	ExpressionPlugin
)

// PluginObserver is called when a plugin begins, and what it returns when the plugin
// ends: the scheduler itself has no clock.
type PluginObserver func(Plugin) (end func())

// WithObserver returns the request with an observer, which need not be safe for
// concurrent use if the returned request is used by one goroutine.
func (r ClusterRequest) WithObserver(o PluginObserver) ClusterRequest {
	r.observer = o
	return r
}

// beginPlugin tells the observer that a plugin begins.
func (o PluginObserver) beginPlugin(kind PluginKind, name string) (end func()) {
	if o == nil {
		return func() {}
	}
	return o(Plugin{Kind: kind, Name: name})
}

// WantedClusters returns how many clusters are wanted, and false if all are.
func (r ClusterRequest) WantedClusters() (int, bool) { return r.count, !r.all }

// eligibilityCode returns codeEligible if the filters let a cluster through, or what
// became of it.
func (r ClusterRequest) eligibilityCode(now *schedulingCycle, i int, c *view.Cluster) verdictCode {
	for _, f := range r.filters {
		if ok, _ := f.admitsCluster(now, i, c); !ok {
			return f.refusalCode()
		}
	}
	return codeEligible
}
