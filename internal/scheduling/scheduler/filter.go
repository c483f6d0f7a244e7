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

// clusterFilter says no to clusters.
type clusterFilter interface {
	// pluginName is for metrics.
	pluginName() string
	// admitsCluster reports whether a cluster may be chosen, and if not, a detail that
	// explain understands.
	admitsCluster(now *schedulingCycle, i int, c *view.Cluster) (ok bool, detail int)
	// refusalCode is the verdict on those that may not.
	refusalCode() verdictCode
	// explainRefusal says why a cluster may not be chosen.
	explainRefusal(c *view.Cluster, detail int) string
	// objections returns all that it has against a cluster; none if the cluster may
	// be chosen.
	objections(now *schedulingCycle, i int, c *view.Cluster) []string
}

// objection returns why a filter with at most one reason does not admit a cluster.
func objection(f clusterFilter, now *schedulingCycle, i int, c *view.Cluster) []string {
	if ok, detail := f.admitsCluster(now, i, c); !ok {
		return []string{f.explainRefusal(c, detail)}
	}
	return nil
}

// deletionFilter bars clusters that are on their way out.
type deletionFilter struct{}

func (deletionFilter) pluginName() string { return "Deletion" }

func (deletionFilter) admitsCluster(_ *schedulingCycle, _ int, c *view.Cluster) (bool, int) {
	return !c.Deleting, 0
}

func (deletionFilter) refusalCode() verdictCode { return codeDeleting }

func (deletionFilter) explainRefusal(*view.Cluster, int) string { return "it is being deleted" }

func (f deletionFilter) objections(now *schedulingCycle, i int, c *view.Cluster) []string {
	return objection(f, now, i, c)
}

// setFilter lets clusters through that are in one of the sets.
type setFilter struct {
	sets  []ClusterSet
	whole bool
}

func (setFilter) pluginName() string { return "ClusterSets" }

func (f setFilter) admitsCluster(_ *schedulingCycle, _ int, c *view.Cluster) (bool, int) {
	if f.whole {
		return true, 0
	}
	for _, set := range f.sets {
		if set.Clusters.Matches(labels.Set(c.Labels)) {
			return true, 0
		}
	}
	return false, 0
}

func (setFilter) refusalCode() verdictCode { return codeSet }
func (setFilter) explainRefusal(*view.Cluster, int) string {
	return "it is in none of the cluster sets"
}

func (f setFilter) objections(now *schedulingCycle, i int, c *view.Cluster) []string {
	return objection(f, now, i, c)
}

// predicateFilter lets clusters through that meet one of the predicates.
type predicateFilter []compiledPredicate

type compiledPredicate struct {
	labels, claims labels.Selector
	expressions    []celProgram
}

// meetsPredicate reports whether a cluster meets the predicate.
func (p compiledPredicate) meetsPredicate(now *schedulingCycle, c *view.Cluster) bool {
	if !p.labels.Matches(labels.Set(c.Labels)) || !p.claims.Matches(labels.Set(c.Claims)) {
		return false
	}
	for _, e := range p.expressions {
		if !e.evaluatesTrue(now, c) {
			return false
		}
	}
	return true
}

func (p Predicate) compilePredicate() (compiledPredicate, field.ErrorList) {
	var compiled compiledPredicate
	var problems field.ErrorList
	for _, part := range []struct {
		name     string
		selector *metav1.LabelSelector
		into     *labels.Selector
	}{{"labelSelector", &p.Labels, &compiled.labels}, {"claimSelector", &p.Claims, &compiled.claims}} {
		selector, err := metav1.LabelSelectorAsSelector(part.selector)
		if err != nil {
			problems = append(problems, field.Invalid(p.Path.Child(part.name), metav1.FormatLabelSelector(part.selector), err.Error()))
			selector = labels.Nothing()
		}
		*part.into = selector
	}
	expressions, errs := compileExpressions(p.Expressions, p.Path.Child("celSelector", "celExpressions"))
	compiled.expressions = expressions
	return compiled, append(problems, errs...)
}

func (predicateFilter) pluginName() string { return "Predicate" }

func (f predicateFilter) admitsCluster(now *schedulingCycle, _ int, c *view.Cluster) (bool, int) {
	for _, p := range f {
		if p.meetsPredicate(now, c) {
			return true, 0
		}
	}
	return len(f) == 0, 0
}

func (predicateFilter) refusalCode() verdictCode { return codePredicate }

func (f predicateFilter) explainRefusal(c *view.Cluster, _ int) string {
	if len(f) > 1 {
		return fmt.Sprintf("it meets none of %d predicates", len(f))
	}
	if text := f[0].mismatch(c); text != "" {
		return text
	}
	return "the CEL expressions are not true for it"
}

// mismatch says which selector of the predicate does not select a cluster, "" if
// both do.
func (p compiledPredicate) mismatch(c *view.Cluster) string {
	if !p.labels.Matches(labels.Set(c.Labels)) {
		return fmt.Sprintf("its labels do not match %q", p.labels)
	}
	if !p.claims.Matches(labels.Set(c.Claims)) {
		return fmt.Sprintf("its claims do not match %q", p.claims)
	}
	return ""
}

// objections has one for each predicate, as one that is met is enough.
func (f predicateFilter) objections(now *schedulingCycle, _ int, c *view.Cluster) []string {
	var against []string
	for n, p := range f {
		text := p.mismatch(c)
		for _, e := range p.expressions {
			if text != "" {
				break
			}
			if !e.evaluatesTrue(now, c) {
				text = fmt.Sprintf("CEL expression %q is not true for it", e.text)
			}
			if now.problem != nil {
				text = fmt.Sprintf("CEL expression %q fails: %s", e.text, now.problem.Detail)
			}
		}
		if text == "" {
			return nil
		}
		if len(f) > 1 {
			text = fmt.Sprintf("predicate %d: %s", n, text)
		}
		against = append(against, text)
	}
	return against
}
