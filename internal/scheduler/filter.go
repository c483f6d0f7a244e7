// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/fleet/view"
)

// filter says no to clusters.
type filter interface {
	// admits tells whether a cluster may be chosen, and if not, a detail that
	// explain understands.
	admits(now *round, i int, c *view.Cluster) (ok bool, detail int)
	// code is the verdict on those that may not.
	code() code
	// explain says why a cluster may not be chosen.
	explain(c *view.Cluster, detail int) string
}

// deletionFilter bars clusters that are on their way out.
type deletionFilter struct{}

func (deletionFilter) admits(_ *round, _ int, c *view.Cluster) (bool, int) { return !c.Deleting, 0 }
func (deletionFilter) code() code                                          { return codeDeleting }
func (deletionFilter) explain(*view.Cluster, int) string                   { return "it is being deleted" }

// setFilter lets clusters through that are in one of the sets.
type setFilter struct {
	sets  []Set
	whole bool
}

func (f setFilter) admits(_ *round, _ int, c *view.Cluster) (bool, int) {
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

func (setFilter) code() code                        { return codeSet }
func (setFilter) explain(*view.Cluster, int) string { return "it is in none of the cluster sets" }

// predicateFilter lets clusters through that meet one of the predicates.
type predicateFilter []compiledPredicate

type compiledPredicate struct {
	labels, claims labels.Selector
	expressions    []program
}

// meets tells whether a cluster meets the predicate.
func (p compiledPredicate) meets(now *round, c *view.Cluster) bool {
	if !p.labels.Matches(labels.Set(c.Labels)) || !p.claims.Matches(labels.Set(c.Claims)) {
		return false
	}
	for _, e := range p.expressions {
		if !e.holds(now, c) {
			return false
		}
	}
	return true
}

func (p Predicate) compile() (compiledPredicate, field.ErrorList) {
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

func (f predicateFilter) admits(now *round, _ int, c *view.Cluster) (bool, int) {
	for _, p := range f {
		if p.meets(now, c) {
			return true, 0
		}
	}
	return len(f) == 0, 0
}

func (predicateFilter) code() code { return codePredicate }

func (f predicateFilter) explain(c *view.Cluster, _ int) string {
	if len(f) > 1 {
		return fmt.Sprintf("it meets none of %d predicates", len(f))
	}
	if !f[0].labels.Matches(labels.Set(c.Labels)) {
		return fmt.Sprintf("its labels do not match %q", f[0].labels)
	}
	if !f[0].claims.Matches(labels.Set(c.Claims)) {
		return fmt.Sprintf("its claims do not match %q", f[0].claims)
	}
	return "the CEL expressions are not true of it"
}
