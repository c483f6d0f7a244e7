// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// Operator tells how a toleration compares values.
type Operator string

// The operators.
const (
	// Equal tolerates taints with the same value. It is the default.
	Equal Operator = "Equal"
	// Exists tolerates taints with any value.
	Exists Operator = "Exists"
)

// Toleration says that taints do not matter, as that of a pod does: an empty
// effect is every effect, and an empty key is every key.
type Toleration struct {
	Path       *field.Path
	Key, Value string
	Operator   Operator
	Effect     view.Effect
	// For is for how long, from when the taint was added; nil is for ever. It counts
	// for taints of effect NoSelect and PreferNoSelect.
	For *time.Duration
}

// checkTolerations returns what is wrong with tolerations. With keyless, one without a key
// may compare values: bindings allow that, and Placements do not.
func checkTolerations(tolerations []Toleration, keyless bool) ([]Toleration, field.ErrorList) {
	var problems field.ErrorList
	for _, t := range tolerations {
		switch {
		case t.Operator != "" && t.Operator != Equal && t.Operator != Exists:
			problems = append(problems, field.NotSupported(t.Path.Child("operator"), t.Operator, []Operator{Equal, Exists}))
		case t.Key == "" && t.Operator != Exists && !keyless:
			problems = append(problems, field.Required(t.Path.Child("key"), "may be empty only with operator Exists"))
		case t.Value != "" && t.Operator == Exists:
			problems = append(problems, field.Invalid(t.Path.Child("value"), t.Value, "must be empty with operator Exists"))
		}
	}
	return tolerations, problems
}

// tolerates reports whether the toleration is for the taint, whatever the time.
func (t Toleration) tolerates(taint view.Taint) bool {
	return (t.Key == "" || t.Key == taint.Key) && (t.Effect == "" || t.Effect == taint.Effect) &&
		(t.Operator == Exists || t.Value == taint.Value)
}

// tolerated reports whether one of the tolerations holds for the taint now. If it
// will not for ever, the round comes again when the last of them ends.
func tolerated(now *schedulingCycle, tolerations []Toleration, taint view.Taint) bool {
	var until time.Time
	for _, t := range tolerations {
		if !t.tolerates(taint) {
			continue
		}
		if t.For == nil || taint.Effect == view.NoSelectIfNew {
			return true
		}
		if end := taint.Since.Add(*t.For); end.After(until) {
			until = end
		}
	}
	if !until.After(now.now) {
		return false
	}
	now.validUntil(until)
	return true
}

// taintFilter bars clusters that have a taint which is not tolerated. And it bars those that only ask to join,
// whatever is tolerated: they have the taint of clusters whose agents are silent, and who tolerates it means those.
type taintFilter struct {
	tolerations []Toleration
	// lenient says that no taint matters to clusters that are chosen already.
	lenient bool
}

func (taintFilter) pluginName() string { return "TaintToleration" }

func (f taintFilter) admitsCluster(now *schedulingCycle, i int, c *view.Cluster) (bool, int) {
	for n, taint := range c.Taints {
		if f.barsCluster(now, i, taint) {
			return false, n
		}
	}
	return !c.AsksToJoin, len(c.Taints)
}

// barsCluster reports whether a taint of a cluster keeps it from being chosen.
func (f taintFilter) barsCluster(now *schedulingCycle, i int, taint view.Taint) bool {
	if taint.Effect == view.PreferNoSelect || now.kept[i] && (f.lenient || taint.Effect == view.NoSelectIfNew) {
		return false
	}
	return !tolerated(now, f.tolerations, taint)
}

func (taintFilter) refusalCode() verdictCode { return codeTaint }

func (taintFilter) explainRefusal(c *view.Cluster, detail int) string {
	if detail == len(c.Taints) {
		return "it waits for acceptance, which no toleration replaces"
	}
	return fmt.Sprintf("taint %s is not tolerated", c.Taints[detail])
}

func (f taintFilter) objections(now *schedulingCycle, i int, c *view.Cluster) []string {
	var against []string
	for n, taint := range c.Taints {
		if f.barsCluster(now, i, taint) {
			against = append(against, f.explainRefusal(c, n))
		}
	}
	if c.AsksToJoin {
		against = append(against, f.explainRefusal(c, len(c.Taints)))
	}
	return against
}

// taintPreference is the scorer of taints that prefer other clusters.
type taintPreference []Toleration

func (taintPreference) Name() string { return "PreferNoSelect" }

func (p taintPreference) scoreClusters(now *schedulingCycle, eligible []int, scores []int32) {
	for n, i := range eligible {
		for _, taint := range now.fleet.ClusterAt(i).Taints {
			if taint.Effect == view.PreferNoSelect && !tolerated(now, p, taint) {
				scores[n] = scoreMin
				break
			}
		}
	}
}

func (taintPreference) scoreMayChange(before, after *view.Cluster) bool {
	return !slices.Equal(before.Taints, after.Taints)
}
