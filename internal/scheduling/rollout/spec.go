// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
)

// noDeadline is the progressDeadline of a rollout that has none.
const noDeadline = "None"

// ParseStrategy returns the strategy that the API object at the path asks for, or what is
// wrong with it.
func ParseStrategy(spec clusterv1alpha1.RolloutStrategy, path *field.Path) (Strategy, field.ErrorList) {
	strategy := Strategy{Kind: StrategyKind(spec.Type)}
	var config clusterv1alpha1.RolloutConfig
	var mandatory []clusterv1alpha1.MandatoryDecisionGroup
	var part *field.Path
	switch spec.Type {
	case "", clusterv1alpha1.RolloutTypeAll:
		strategy.Kind = All
		if part = path.Child("all"); spec.All != nil {
			config = spec.All.RolloutConfig
		}
	case clusterv1alpha1.RolloutTypeProgressive:
		if part = path.Child("progressive"); spec.Progressive != nil {
			config = spec.Progressive.RolloutConfig
			mandatory = spec.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups
			strategy.MaxConcurrency = spec.Progressive.MaxConcurrency
		}
	case clusterv1alpha1.RolloutTypeProgressivePerGroup:
		if part = path.Child("progressivePerGroup"); spec.ProgressivePerGroup != nil {
			config = spec.ProgressivePerGroup.RolloutConfig
			mandatory = spec.ProgressivePerGroup.MandatoryDecisionGroups.MandatoryDecisionGroups
		}
	default:
		return strategy, strategy.ValidateStrategy(path)
	}
	for _, group := range mandatory {
		strategy.Mandatory = append(strategy.Mandatory, GroupRef{Name: group.GroupName, Index: int(group.GroupIndex)})
	}
	strategy.MaxFailures = config.MaxFailures
	problems := strategy.parseDurations(config, part)
	return strategy, append(problems, strategy.ValidateStrategy(part)...)
}

// parseDurations reads the durations of a config.
func (s *Strategy) parseDurations(config clusterv1alpha1.RolloutConfig, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	if config.MinSuccessTime != "" {
		wait, err := time.ParseDuration(string(config.MinSuccessTime))
		if err != nil {
			problems = append(problems, field.Invalid(path.Child("minSuccessTime"), config.MinSuccessTime, "must be a duration such as 90s, 5m or 1h"))
		}
		s.MinSuccess = wait
	}
	if config.ProgressDeadline != "" && config.ProgressDeadline != noDeadline {
		wait, err := time.ParseDuration(config.ProgressDeadline)
		if err != nil {
			return append(problems, field.Invalid(path.Child("progressDeadline"), config.ProgressDeadline, "must be a duration such as 90s, 5m or 1h, or None"))
		}
		s.Deadline = &wait
	}
	return problems
}
