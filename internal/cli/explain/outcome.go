// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cli/fleet"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// placementOutcome is what a Placement chooses. Its fields are stable.
type placementOutcome struct {
	Namespace string      `json:"namespace"`
	Placement string      `json:"placement"`
	AsOf      metav1.Time `json:"asOf"`
	// Change is new, changed or unchanged, of what "capstan plan" is given.
	Change string `json:"change,omitempty"`
	// Mistakes are those of the spec. With one that keeps it from being understood,
	// nothing is chosen anew, and the clusters that are chosen stay.
	Mistakes []string `json:"mistakes,omitempty"`
	Stays    []string `json:"stays,omitempty"`
	// Conditions are those that say how well the wish is met.
	Conditions []condition `json:"conditions"`
	Chosen     int         `json:"chosen"`
	// Wanted is missing if all clusters are.
	Wanted   *int             `json:"wanted,omitempty"`
	Clusters []clusterVerdict `json:"clusters"`
	// Difference is what the decisions would have to change.
	Difference decisionDifference `json:"difference"`
	// Again is when time alone may change the outcome.
	Again *metav1.Time `json:"again,omitempty"`
	// Notes say what else matters, and Unread what could not be read.
	Notes  []string `json:"notes,omitempty"`
	Unread []string `json:"unread,omitempty"`
}

// condition is a condition of the Placement, as it would be now.
type condition struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
}

// clusterVerdict is what becomes of a cluster.
type clusterVerdict struct {
	Name   string `json:"name"`
	Chosen bool   `json:"chosen"`
	// Group is the number of the group of a chosen cluster, from 0.
	Group     *int   `json:"group,omitempty"`
	GroupName string `json:"groupName,omitempty"`
	// Rank is from 1, among the clusters that the filters let through.
	Rank      int     `json:"rank,omitempty"`
	Score     *int64  `json:"score,omitempty"`
	Scores    []score `json:"scores,omitempty"`
	RefusedBy string  `json:"refusedBy,omitempty"`
	Reason    string  `json:"reason"`
	// Filters and Taints are told of one cluster only.
	Filters []filterCheck `json:"filters,omitempty"`
	Taints  []taint       `json:"taints,omitempty"`
}

// score is what a prioritizer gives a cluster.
type score struct {
	Prioritizer string `json:"prioritizer"`
	Weight      int    `json:"weight"`
	Score       int32  `json:"score"`
}

// filterCheck is what a filter says about a cluster.
type filterCheck struct {
	Filter     string   `json:"filter"`
	Passed     bool     `json:"passed"`
	Objections []string `json:"objections,omitempty"`
}

// taint is a taint of a cluster.
type taint struct {
	Taint string       `json:"taint"`
	Since *metav1.Time `json:"since,omitempty"`
}

// decisionDifference is between the decisions that are written and those of an outcome.
type decisionDifference struct {
	Add    []string `json:"add,omitempty"`
	Remove []string `json:"remove,omitempty"`
	// Move are clusters that get into another group.
	Move []string `json:"move,omitempty"`
}

func (d decisionDifference) isEmpty() bool { return len(d.Add)+len(d.Remove)+len(d.Move) == 0 }

// evaluatePlacement finds out what a Placement chooses, given what it has chosen before. It
// also returns the result, which is empty if the spec has mistakes.
func evaluatePlacement(p *clusterv1beta1.Placement, s *fleet.NamespaceState, before []placement.ClusterChoice, now time.Time) (*placementOutcome, scheduler.ScheduleResult) {
	bound, problems := s.BoundSets()
	o := &placementOutcome{Namespace: p.Namespace, Placement: p.Name, AsOf: metav1.NewTime(now), Notes: problems, Unread: s.Unread, Clusters: []clusterVerdict{}}
	names := []string{}
	for _, choice := range before {
		names = append(names, choice.Cluster)
	}
	request, mistakes := placement.CompilePlacement(p, bound)
	var result scheduler.ScheduleResult
	if len(mistakes) == 0 {
		result = scheduler.ScheduleClusters(s.Clusters, request.ClusterRequest, names, now)
	}
	if result.Exhausted { // nothing is decided, as with a mistake in the spec
		mistakes = field.ErrorList{result.Problem}
	}
	if len(mistakes) > 0 {
		for _, mistake := range mistakes {
			o.Mistakes = append(o.Mistakes, mistake.Error())
		}
		o.Conditions = []condition{conditionOf(placement.MisconfiguredCondition(mistakes))}
		o.Stays = names
		return o, scheduler.ScheduleResult{}
	}
	o.Conditions = []condition{conditionOf(placement.SatisfiedCondition(result, request.NoSets))}
	if result.Problem != nil {
		o.Mistakes = []string{result.Problem.Error()}
		o.Conditions = append(o.Conditions, conditionOf(placement.MisconfiguredCondition(append(mistakes, result.Problem))))
	}
	if wanted, limited := request.WantedClusters(); limited {
		o.Wanted = &wanted
	}
	if !result.After.IsZero() {
		o.Again = new(metav1.NewTime(result.After))
	}
	after := groupChoices(request.Grouping.DivideTargets(s.Clusters, result.Targets))
	o.Chosen, o.Difference = len(after), compareChoices(before, after)
	o.Clusters = verdicts(result, after)
	return o, result
}

func conditionOf(c metav1.Condition) condition {
	return condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
}

// groupChoices returns what groups say, in the order of the clusters' names.
func groupChoices(groups []scheduler.DecisionGroup) []placement.ClusterChoice {
	var all []placement.ClusterChoice
	for n, group := range groups {
		for _, cluster := range group.Clusters {
			all = append(all, placement.ClusterChoice{Cluster: cluster, Group: n, GroupName: group.Name})
		}
	}
	slices.SortFunc(all, func(a, b placement.ClusterChoice) int { return strings.Compare(a.Cluster, b.Cluster) })
	return all
}

// findChoice returns the choice of a cluster; both lists are in the order of names.
func findChoice(all []placement.ClusterChoice, cluster string) (placement.ClusterChoice, bool) {
	n, found := slices.BinarySearchFunc(all, cluster, func(c placement.ClusterChoice, name string) int { return strings.Compare(c.Cluster, name) })
	if !found {
		return placement.ClusterChoice{}, false
	}
	return all[n], true
}

func compareChoices(before, after []placement.ClusterChoice) decisionDifference {
	var d decisionDifference
	for _, now := range after {
		switch was, had := findChoice(before, now.Cluster); {
		case !had:
			d.Add = append(d.Add, now.Cluster)
		case was != now:
			d.Move = append(d.Move, now.Cluster)
		}
	}
	for _, was := range before {
		if _, stays := findChoice(after, was.Cluster); !stays {
			d.Remove = append(d.Remove, was.Cluster)
		}
	}
	return d
}

// verdicts returns what becomes of each cluster: those that are chosen come
// first, by their groups, then the others by their rank. Those that are in none
// of the sets come last.
func verdicts(result scheduler.ScheduleResult, chosen []placement.ClusterChoice) []clusterVerdict {
	all := []clusterVerdict{}
	for v := range result.ClusterVerdicts() {
		all = append(all, verdictOf(v, chosen))
	}
	slices.SortStableFunc(all, func(a, b clusterVerdict) int {
		return cmp.Or(cmp.Compare(verdictOrder(a), verdictOrder(b)), cmp.Compare(groupOf(a), groupOf(b)), cmp.Compare(a.Rank, b.Rank))
	})
	return all
}

func verdictOf(v scheduler.ClusterVerdict, chosen []placement.ClusterChoice) clusterVerdict {
	told := clusterVerdict{Name: v.Cluster, Chosen: v.Chosen, Rank: v.Rank, RefusedBy: v.RefusedBy, Reason: v.Reason}
	if choice, found := findChoice(chosen, v.Cluster); found {
		told.Group = &choice.Group
		told.GroupName = choice.GroupName
	}
	if v.Rank > 0 {
		told.Score = &v.Score
	}
	for _, s := range v.Scores {
		told.Scores = append(told.Scores, score{Prioritizer: s.Scorer, Weight: s.Weight, Score: s.Score})
	}
	return told
}

// verdictOrder is where in the list a cluster comes.
func verdictOrder(v clusterVerdict) int {
	switch {
	case v.Chosen:
		return 0
	case v.Rank > 0:
		return 1
	case v.RefusedBy != "clusterSets":
		return 2
	default:
		return 3
	}
}

func groupOf(v clusterVerdict) int {
	if v.Group == nil {
		return 0
	}
	return *v.Group
}

// addDetails adds to a verdict all that there is to tell about one cluster.
func (v *clusterVerdict) addDetails(result scheduler.ScheduleResult, c view.Cluster) {
	for _, found := range result.FilterChecks(c.Name) {
		v.Filters = append(v.Filters, filterCheck{Filter: found.Filter, Passed: len(found.Objections) == 0, Objections: found.Objections})
	}
	for _, t := range c.Taints {
		told := taint{Taint: t.String()}
		if !t.Since.IsZero() {
			told.Since = new(metav1.NewTime(t.Since))
		}
		v.Taints = append(v.Taints, told)
	}
}
