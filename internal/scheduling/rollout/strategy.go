// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// StrategyKind is how a rollout goes on.
type StrategyKind string

// The kinds.
const (
	// All changes all clusters at once.
	All StrategyKind = "All"
	// Progressive changes so many clusters at a time.
	Progressive StrategyKind = "Progressive"
	// ProgressivePerGroup changes one group of clusters at a time.
	ProgressivePerGroup StrategyKind = "ProgressivePerGroup"
)

// Strategy says how a change is rolled out.
type Strategy struct {
	Kind StrategyKind
	// MinSuccess is how long a cluster has to have succeeded before it counts.
	MinSuccess time.Duration
	// Deadline is how long a cluster may take; nil is for ever. A cluster that fails
	// may recover until then. Without a deadline it counts as failed at once.
	Deadline *time.Duration
	// MaxFailures is how many clusters may fail, as a number or as a percentage of
	// all clusters, rounded down. If more do, no other cluster is changed. The zero
	// value is none. Kind All does not ask.
	MaxFailures intstr.IntOrString
	// MaxConcurrency is how many clusters are changed at a time, as a number or as
	// a percentage of all clusters, rounded up; of those of the group for kind
	// ProgressivePerGroup. The zero value is all of them.
	MaxConcurrency intstr.IntOrString
	// Mandatory are groups that have to succeed, one after the other and before any
	// other cluster is changed. None of their clusters may fail.
	Mandatory []GroupRef
}

// GroupRef names groups: by their name or, if that is empty, one by its index.
type GroupRef struct {
	Name  string
	Index int
}

func (r GroupRef) matchesGroup(index int, group ClusterGroup) bool {
	if r.Name != "" {
		return r.Name == group.Name
	}
	return r.Index == index
}

// ValidateStrategy returns what is wrong with the strategy that stands at the path.
func (s Strategy) ValidateStrategy(path *field.Path) field.ErrorList {
	var problems field.ErrorList
	switch s.Kind {
	case All, Progressive, ProgressivePerGroup:
	default:
		problems = append(problems, field.NotSupported(path.Child("type"), s.Kind, []StrategyKind{All, Progressive, ProgressivePerGroup}))
	}
	if s.MinSuccess < 0 {
		problems = append(problems, field.Invalid(path.Child("minSuccessTime"), s.MinSuccess.String(), "must not be negative"))
	}
	if s.Deadline != nil && *s.Deadline <= 0 {
		problems = append(problems, field.Invalid(path.Child("progressDeadline"), s.Deadline.String(), "must be more than 0, or None"))
	}
	problems = append(problems, checkPart(s.MaxFailures, 0, path.Child("maxFailures"))...)
	if s.MaxConcurrency != (intstr.IntOrString{}) {
		problems = append(problems, checkPart(s.MaxConcurrency, 1, path.Child("maxConcurrency"))...)
	}
	return problems
}

// checkPart returns what is wrong with a number or a percentage of clusters.
func checkPart(value intstr.IntOrString, least int, path *field.Path) field.ErrorList {
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, 100, true)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, value.String(), "must be a number or a percentage such as 25%")}
	case n < least:
		return field.ErrorList{field.Invalid(path, value.String(), fmt.Sprintf("must be at least %d", least))}
	case value.Type == intstr.String && n > 100:
		return field.ErrorList{field.Invalid(path, value.String(), "must be at most 100%")}
	}
	return nil
}

// failuresMax returns how many of so many clusters may fail.
func (s Strategy) failuresMax(clusters int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&s.MaxFailures, clusters, false)
	if err != nil { // Check refuses it
		return 0
	}
	return n
}

// concurrency returns how many of so many clusters are changed at a time.
func (s Strategy) concurrency(clusters int) int {
	if s.MaxConcurrency == (intstr.IntOrString{}) {
		return clusters
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&s.MaxConcurrency, clusters, true)
	if err != nil { // Check refuses it
		return 1
	}
	return max(1, n)
}
