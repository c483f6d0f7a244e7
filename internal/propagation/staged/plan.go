// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staged

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
	"github.com/capstan-io/capstan/internal/untrusted/labelselector"
)

// Plan is how changes are rolled out. The zero value gives them to all clusters at
// once.
type Plan struct {
	groups   []clusterGroup
	strategy rollout.Strategy
	// Paused keeps changes from other clusters.
	Paused bool
}

// clusterGroup are clusters that are changed next to each other.
type clusterGroup struct {
	name   string
	names  map[string]bool
	labels labels.Selector // nil selects nothing
	claims labels.Selector
}

// CompilePlan returns the plan of a rollout, or what is wrong with its spec. With a
// mistake, no cluster gets a change.
func CompilePlan(spec *fleetv1alpha1.PropagationRolloutSpec) (Plan, field.ErrorList) {
	p := Plan{strategy: rollout.Strategy{Kind: rollout.ProgressivePerGroup}, Paused: spec.Paused}
	path := field.NewPath("spec")
	var problems field.ErrorList
	if most := spec.MaxConcurrency; most != nil {
		p.strategy.MaxConcurrency = *most
		if *most == (intstr.IntOrString{}) { // the engine takes it for all clusters
			problems = append(problems, field.Invalid(path.Child("maxConcurrency"), most.String(), "must be at least 1"))
		}
	}
	if spec.MaxFailures != nil {
		p.strategy.MaxFailures = *spec.MaxFailures
	}
	wait, wrong := parseDuration(spec.MinSuccessTime, path.Child("minSuccessTime"))
	p.strategy.MinSuccess, problems = wait, append(problems, wrong...)
	deadline, wrong := parseDuration(spec.ProgressDeadline, path.Child("progressDeadline"))
	if problems = append(problems, wrong...); deadline > 0 {
		p.strategy.Deadline = &deadline
	}
	problems = append(problems, p.strategy.ValidateStrategy(path)...)
	if wrong := checkTerms(spec.Groups, path.Child("groups")); len(wrong) > 0 {
		p.Paused = true
		return p, append(problems, wrong...)
	}
	for i, each := range spec.Groups {
		at := path.Child("groups").Index(i)
		g := clusterGroup{name: each.Name, names: map[string]bool{}}
		for _, name := range each.ClusterNames {
			g.names[name] = true
		}
		g.labels, wrong = selectorOf(each.LabelSelector, at.Child("labelSelector"))
		problems = append(problems, wrong...)
		g.claims, wrong = selectorOf(each.ClaimSelector, at.Child("claimSelector"))
		problems = append(problems, wrong...)
		p.groups = append(p.groups, g)
	}
	p.Paused = p.Paused || len(problems) > 0
	return p, problems
}

// checkTerms refuses more terms than clusters can be compared with: they are for each
// object of the rollout, again and again.
func checkTerms(groups []fleetv1alpha1.RolloutGroup, path *field.Path) field.ErrorList {
	selectors := make([]*metav1.LabelSelector, 0, 2*len(groups))
	for i := range groups {
		selectors = append(selectors, groups[i].LabelSelector, groups[i].ClaimSelector)
	}
	return labelselector.CheckTerms(path, labelselector.CountTerms(selectors...))
}

func parseDuration(text string, path *field.Path) (time.Duration, field.ErrorList) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, field.ErrorList{field.Invalid(path, text, "must be a duration such as 90s, 5m or 1h")}
	}
	return d, nil
}

func selectorOf(s *metav1.LabelSelector, path *field.Path) (labels.Selector, field.ErrorList) {
	if s == nil {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, metav1.FormatLabelSelector(s), err.Error())}
	}
	return selector, nil
}

// GroupOfCluster returns the number of the group of a cluster from 0, and its name. The
// clusters that no group has are those of the last one, which has no name.
func (p Plan) GroupOfCluster(cluster view.Cluster) (number int, name string) {
	n := slices.IndexFunc(p.groups, func(g clusterGroup) bool { return g.matchesCluster(cluster) })
	if n < 0 {
		return len(p.groups), ""
	}
	return n, p.groups[n].name
}

func (g clusterGroup) matchesCluster(c view.Cluster) bool {
	return g.names[c.Name] ||
		g.labels != nil && g.labels.Matches(labels.Set(c.Labels)) ||
		g.claims != nil && g.claims.Matches(labels.Set(c.Claims))
}
