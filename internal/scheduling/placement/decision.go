// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

// decisionInfix stands between the name of a Placement and the number of a
// PlacementDecision.
const decisionInfix = "-decision-"

// DecisionName returns the name of a PlacementDecision, n from 1.
func DecisionName(placement string, n int) string {
	return placement + decisionInfix + strconv.Itoa(n)
}

// ParseDecisionName returns the Placement and the number that a PlacementDecision
// has by its name, and false if it has none.
func ParseDecisionName(name string) (placement string, number int, ok bool) {
	at := strings.LastIndex(name, decisionInfix)
	if at < 0 {
		return "", 0, false
	}
	placement = name[:at]
	number, err := strconv.Atoi(name[at+len(decisionInfix):])
	return placement, number, err == nil && number > 0 && DecisionName(placement, number) == name
}

// DecisionNumber returns the number in the name of a PlacementDecision, and
// false if it is none of the Placement's.
func DecisionNumber(p *clusterv1beta1.Placement, d *clusterv1beta1.PlacementDecision) (int, bool) {
	placement, number, named := ParseDecisionName(d.Name)
	return number, named && placement == p.Name && metav1.IsControlledBy(d, p)
}

// ClusterChoice is a cluster that was chosen, and the group that it is in.
type ClusterChoice struct {
	Cluster string
	// Group is the number of the group, from 0, and GroupName its name or nothing.
	Group     int
	GroupName string
}

// ChoicesFromDecisions returns what those of the decisions say that are the Placement's, in
// the order of the clusters' names.
func ChoicesFromDecisions(p *clusterv1beta1.Placement, decisions []clusterv1beta1.PlacementDecision) []ClusterChoice {
	var choices []ClusterChoice
	for i := range decisions {
		d := &decisions[i]
		if _, ours := DecisionNumber(p, d); !ours {
			continue
		}
		group, err := strconv.Atoi(d.Labels[clusterv1beta1.LabelDecisionGroupIndex])
		if err != nil {
			group = -1 // which no group has
		}
		for _, decision := range d.Status.Decisions {
			choices = append(choices, ClusterChoice{Cluster: decision.ClusterName, Group: group, GroupName: d.Labels[clusterv1beta1.LabelDecisionGroupName]})
		}
	}
	slices.SortFunc(choices, func(a, b ClusterChoice) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Group, b.Group))
	})
	// A cluster that moves from one decision to another is in both for a moment.
	return slices.CompactFunc(choices, func(a, b ClusterChoice) bool { return a.Cluster == b.Cluster })
}
