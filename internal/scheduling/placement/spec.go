// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// The prioritizers that are built in.
const (
	prioritizerBalance = "Balance"
	prioritizerSteady  = "Steady"
	prioritizerCPU     = "ResourceAllocatableCPU"
	prioritizerMemory  = "ResourceAllocatableMemory"
)

// scoreRateLimitDefault is for Placements that were stored before the API had one.
const scoreRateLimitDefault = time.Minute

// CompiledRequest is what a Placement asks for, found to be right. It does not change,
// and may be used from several goroutines.
type CompiledRequest struct {
	scheduler.ClusterRequest
	// Grouping divides the clusters that are chosen.
	Grouping scheduler.Grouping
	// NoSets is the reason why there is no set to choose from, one of the reasons of
	// condition PlacementSatisfied; "" if there is one.
	NoSets string
	// ByScore says that decisions are in the order of scores, and ScoreRateLimit is
	// how long scores stay if nothing else changes.
	ByScore        bool
	ScoreRateLimit time.Duration
}

// CompilePlacement reads a Placement. The sets are those that are bound to its namespace.
// Every error is the user's, and names the field.
func CompilePlacement(p *clusterv1beta1.Placement, bound []scheduler.ClusterSet) (CompiledRequest, field.ErrorList) {
	if problems := checkBounds(&p.Spec); len(problems) > 0 {
		return CompiledRequest{}, problems
	}
	w, problems := parseSpec(p)
	var noSets string
	w.spec.Sets, noSets = eligibleSets(p, bound)
	compiled, more := scheduler.CompileRequest(w.spec)
	return CompiledRequest{
		ClusterRequest: compiled, Grouping: w.grouping, NoSets: noSets, ByScore: w.spec.Ranked, ScoreRateLimit: w.scoreRateLimit,
	}, append(problems, more...)
}

// parsedSpec is what a Placement asks for, but for the sets, which depend on others.
type parsedSpec struct {
	spec           scheduler.RequestSpec
	grouping       scheduler.Grouping
	scoreRateLimit time.Duration
}

// parseSpec reads a Placement. Every error names the field.
func parseSpec(p *clusterv1beta1.Placement) (parsedSpec, field.ErrorList) {
	path := field.NewPath("spec")
	w := parsedSpec{spec: scheduler.RequestSpec{Ranked: p.Spec.SortBy == clusterv1beta1.SortByScore}}
	problems := checkName(p.Name)
	limit, errs := scoreRateLimit(p.Spec.ScoreRateLimit, path.Child("scoreRateLimit"))
	w.scoreRateLimit = limit
	problems = append(problems, errs...)
	if n := p.Spec.NumberOfClusters; n != nil {
		if *n < 0 {
			problems = append(problems, field.Invalid(path.Child("numberOfClusters"), *n, "must not be negative"))
		}
		w.spec.Count = new(max(0, int(*n)))
	}
	for i, predicate := range p.Spec.Predicates {
		selector := predicate.RequiredClusterSelector
		w.spec.Predicates = append(w.spec.Predicates, scheduler.Predicate{
			Path:   path.Child("predicates").Index(i).Child("requiredClusterSelector"),
			Labels: selector.LabelSelector, Claims: claimLabelSelector(selector.ClaimSelector), Expressions: selector.CelSelector.CelExpressions,
		})
	}
	for i, t := range p.Spec.Tolerations {
		w.spec.Tolerations = append(w.spec.Tolerations, scheduler.Toleration{
			Path: path.Child("tolerations").Index(i), Key: t.Key, Value: t.Value,
			Operator: scheduler.Operator(t.Operator), Effect: view.Effect(t.Effect), For: secondsToDuration(t.TolerationSeconds),
		})
	}
	for i, c := range p.Spec.SpreadPolicy.SpreadConstraints {
		w.spec.Spread = append(w.spec.Spread, scheduler.SpreadConstraint{
			Path: path.Child("spreadPolicy", "spreadConstraints").Index(i), Key: c.TopologyKey,
			Claim:   c.TopologyKeyType == clusterv1beta1.TopologyKeyTypeClaim,
			MaxSkew: max(1, int(c.MaxSkew)), Hard: c.WhenUnsatisfiable == clusterv1beta1.DoNotSchedule,
		})
	}
	scorers, errs := prioritizers(p.Spec.PrioritizerPolicy, path.Child("prioritizerPolicy"))
	w.spec.Scorers = scorers
	problems = append(problems, errs...)
	grouping, errs := compileGroups(p.Spec.DecisionStrategy.GroupStrategy, path.Child("decisionStrategy", "groupStrategy"))
	w.grouping = grouping
	return w, append(problems, errs...)
}

// checkName returns what is wrong with the name of a Placement.
func checkName(name string) field.ErrorList {
	if len(name) <= validation.LabelValueMaxLength {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, fmt.Sprintf(
		"must be at most %d characters, because it is the value of label %s of the PlacementDecisions; create a Placement with a shorter name",
		validation.LabelValueMaxLength, clusterv1beta1.LabelPlacement))}
}

// scoreRateLimit reads how long scores stay.
func scoreRateLimit(text string, path *field.Path) (time.Duration, field.ErrorList) {
	if text == "" {
		return scoreRateLimitDefault, nil
	}
	limit, err := time.ParseDuration(text)
	if err != nil || limit < 0 {
		return 0, field.ErrorList{field.Invalid(path, text, "must be a duration, such as 30s, 5m or 1h")}
	}
	return limit, nil
}

func claimLabelSelector(selector clusterv1beta1.ClusterClaimSelector) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: selector.MatchExpressions}
}

func secondsToDuration(s *int64) *time.Duration {
	if s == nil {
		return nil
	}
	const most = int64(math.MaxInt64 / time.Second) // for ever, as far as a Duration goes
	return new(time.Duration(min(max(*s, -most), most)) * time.Second)
}

// prioritizers returns the scorers and their weights. In mode Additive Balance
// and Steady count once unless they are configured.
func prioritizers(policy clusterv1beta1.PrioritizerPolicy, path *field.Path) ([]scheduler.WeightedScorer, field.ErrorList) {
	var scorers []scheduler.WeightedScorer
	var problems field.ErrorList
	switch policy.Mode {
	case clusterv1beta1.PrioritizerPolicyModeExact:
	case "", clusterv1beta1.PrioritizerPolicyModeAdditive:
		scorers = []scheduler.WeightedScorer{{Scorer: scheduler.Balance{}, Weight: 1}, {Scorer: scheduler.Steady{}, Weight: 1}}
	default:
		problems = field.ErrorList{field.NotSupported(path.Child("mode"), policy.Mode,
			[]clusterv1beta1.PrioritizerPolicyModeType{clusterv1beta1.PrioritizerPolicyModeAdditive, clusterv1beta1.PrioritizerPolicyModeExact})}
	}
	for i, config := range policy.Configurations {
		at := path.Child("configurations").Index(i)
		scorer, problem := scorerOf(config.ScoreCoordinate, at.Child("scoreCoordinate"))
		if problem != nil {
			problems = append(problems, problem)
			continue
		}
		weighted := scheduler.WeightedScorer{Path: at, Scorer: scorer, Weight: int(config.Weight)}
		scorers = replaceScorer(scorers, weighted)
	}
	return scorers, problems
}

// replaceScorer replaces the scorer of the same name, or adds the new one.
func replaceScorer(scorers []scheduler.WeightedScorer, weighted scheduler.WeightedScorer) []scheduler.WeightedScorer {
	for n := range scorers {
		if scorers[n].Scorer.Name() == weighted.Scorer.Name() {
			scorers[n] = weighted
			return scorers
		}
	}
	return append(scorers, weighted)
}

func scorerOf(coordinate *clusterv1beta1.ScoreCoordinate, path *field.Path) (scheduler.Scorer, *field.Error) {
	if coordinate == nil {
		return nil, field.Required(path, "names the prioritizer")
	}
	if coordinate.Type == clusterv1beta1.ScoreCoordinateTypeAddOn {
		if coordinate.AddOn == nil {
			return nil, field.Required(path.Child("addOn"), "names the score, as type is AddOn")
		}
		return scheduler.AddOn{Score: view.ScoreName{Resource: coordinate.AddOn.ResourceName, Score: coordinate.AddOn.ScoreName}}, nil
	}
	switch coordinate.BuiltIn {
	case prioritizerBalance:
		return scheduler.Balance{}, nil
	case prioritizerSteady:
		return scheduler.Steady{}, nil
	case prioritizerCPU:
		return scheduler.MostAllocatable{As: prioritizerCPU, Resource: corev1.ResourceCPU}, nil
	case prioritizerMemory:
		return scheduler.MostAllocatable{As: prioritizerMemory, Resource: corev1.ResourceMemory}, nil
	default:
		return nil, field.NotSupported(path.Child("builtIn"), coordinate.BuiltIn,
			[]string{prioritizerBalance, prioritizerSteady, prioritizerCPU, prioritizerMemory})
	}
}

func compileGroups(strategy clusterv1beta1.GroupStrategy, path *field.Path) (scheduler.Grouping, field.ErrorList) {
	grouping := scheduler.Grouping{Size: strategy.ClustersPerDecisionGroup}
	var problems field.ErrorList
	if problem := scheduler.CheckGroupSize(grouping.Size, path.Child("clustersPerDecisionGroup")); problem != nil {
		problems = append(problems, problem)
	}
	for i, group := range strategy.DecisionGroups {
		at := path.Child("decisionGroups").Index(i).Child("groupClusterSelector")
		byLabels, err := metav1.LabelSelectorAsSelector(&group.ClusterSelector.LabelSelector)
		if err != nil {
			problems = append(problems, field.Invalid(at.Child("labelSelector"), metav1.FormatLabelSelector(&group.ClusterSelector.LabelSelector), err.Error()))
			continue
		}
		wanted := claimLabelSelector(group.ClusterSelector.ClaimSelector)
		byClaims, err := metav1.LabelSelectorAsSelector(&wanted)
		if err != nil {
			problems = append(problems, field.Invalid(at.Child("claimSelector"), metav1.FormatLabelSelector(&wanted), err.Error()))
			continue
		}
		grouping.Named = append(grouping.Named, scheduler.NamedGroup{Name: group.GroupName, Labels: byLabels, Claims: byClaims})
	}
	return grouping, problems
}

// eligibleSets returns the sets to choose from: those that are bound to the namespace
// and, if the Placement names sets, are among these. If there are none, it
// returns the reason.
func eligibleSets(p *clusterv1beta1.Placement, bound []scheduler.ClusterSet) ([]scheduler.ClusterSet, string) {
	if len(bound) == 0 {
		return []scheduler.ClusterSet{}, clusterv1beta1.PlacementReasonNoManagedClusterSetBindings
	}
	if len(p.Spec.ClusterSets) == 0 {
		return bound, ""
	}
	named := map[string]bool{}
	for _, name := range p.Spec.ClusterSets {
		named[name] = true
	}
	chosen := []scheduler.ClusterSet{}
	for _, set := range bound {
		if named[set.Name] {
			chosen = append(chosen, set)
		}
	}
	if len(chosen) == 0 {
		return chosen, clusterv1beta1.PlacementReasonNoIntersection
	}
	return chosen, ""
}
