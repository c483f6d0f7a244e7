// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rebalance decides which replicas move to better clusters by themselves,
// how many at a time, and when: for policies that ask for it with the annotation
// fleet.capstan.io/rebalance.
//
// The package is pure.
package rebalance

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

const (
	// percentDefault is how many of the replicas of an object move at a time at most,
	// unless the policy says so.
	percentDefault = 10
	percentMax     = 100
	// windowDefault is how long a better division has to stay better before replicas
	// move, and how long after that others may.
	windowDefault = 10 * time.Minute
	windowMin     = time.Minute
	windowMax     = 24 * time.Hour
)

// Settings are what a policy asks for.
type Settings struct {
	// Budget is how many replicas of an object move in a window at most.
	Budget Budget
	// Window is how long a better division has to stay better before replicas move to
	// it, and how long they stay then.
	Window time.Duration
}

// Budget is a number of replicas, or a share of them.
type Budget struct {
	replicas int32
	percent  int64 // 0 if it is a number
}

// BudgetedReplicas returns how many of so many replicas these are: at least one.
func (b Budget) BudgetedReplicas(replicas int64) int64 {
	if b.percent == 0 {
		return int64(b.replicas)
	}
	return max(1, replicas*b.percent/percentMax)
}

// String returns the budget as a policy has it.
func (b Budget) String() string {
	if b.percent == 0 {
		return strconv.Itoa(int(b.replicas))
	}
	return strconv.FormatInt(b.percent, 10) + "%"
}

// SettingsAnnotations are those that ParseSettings reads.
func SettingsAnnotations() []string {
	return []string{fleetv1alpha1.AnnotationRebalance, fleetv1alpha1.AnnotationRebalanceBudget, fleetv1alpha1.AnnotationRebalanceWindow}
}

// ParseSettings reads the annotations of a policy. It returns nil if nothing moves by itself:
// the policy does not ask for it, or makes a mistake.
func ParseSettings(annotations map[string]string) (*Settings, field.ErrorList) {
	path := field.NewPath("metadata", "annotations")
	set := &Settings{Budget: Budget{percent: percentDefault}, Window: windowDefault}
	var wrong field.ErrorList
	mode, asks := annotations[fleetv1alpha1.AnnotationRebalance]
	if asks && mode != fleetv1alpha1.RebalanceContinuous {
		wrong = append(wrong, field.NotSupported(path.Key(fleetv1alpha1.AnnotationRebalance), mode, []string{fleetv1alpha1.RebalanceContinuous}))
	}
	if text, is := annotations[fleetv1alpha1.AnnotationRebalanceBudget]; is {
		budget, err := budgetOf(text)
		if err != nil {
			wrong = append(wrong, field.Invalid(path.Key(fleetv1alpha1.AnnotationRebalanceBudget), text, err.Error()))
		}
		set.Budget = budget
	}
	if text, is := annotations[fleetv1alpha1.AnnotationRebalanceWindow]; is {
		window, err := time.ParseDuration(text)
		if err != nil || window < windowMin || window > windowMax {
			wrong = append(wrong, field.Invalid(path.Key(fleetv1alpha1.AnnotationRebalanceWindow), text, "want a duration of 1m to 24h, such as 10m"))
		}
		set.Window = window
	}
	if !asks || len(wrong) > 0 {
		return nil, wrong
	}
	return set, nil
}

func budgetOf(text string) (Budget, error) {
	const want = "want a number of replicas of at least 1, such as 2, or a share of them of 1% to 100%"
	number, share := strings.CutSuffix(text, "%")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 1 || share && n > percentMax {
		return Budget{}, errors.New(want)
	}
	if share {
		return Budget{percent: n}, nil
	}
	return Budget{replicas: int32(n)}, nil
}
