// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apply/ignore"
	"github.com/capstan-io/capstan/internal/jsonpath"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// warningsMax is how many warnings one answer has.
const warningsMax = 10

// The expressions of a work and their bytes, at most. To compile a megabyte of them takes
// the webhook from everybody for a while.
const (
	expressionsMax      = 1000
	expressionsBytesMax = 128 << 10
)

// checkExpressions refuses more expressions than are compiled.
func checkExpressions(path string, configs []workv1.ManifestConfigOption) error {
	number, bytes := 0, 0
	count := func(expressions ...string) {
		number += len(expressions)
		for _, expression := range expressions {
			bytes += len(expression)
		}
	}
	for i := range configs {
		if strategy := configs[i].UpdateStrategy; strategy != nil && strategy.ServerSideApply != nil {
			for _, ignored := range strategy.ServerSideApply.IgnoreFields {
				count(ignored.JSONPaths...)
				count(ignored.JQPathExpressions...)
			}
		}
		for _, rule := range configs[i].FeedbackRules {
			for _, reported := range rule.JSONPaths {
				count(reported.Path)
			}
		}
		for _, rule := range configs[i].ConditionRules {
			count(rule.CELExpressions...)
			count(rule.MessageExpression)
		}
	}
	if number > expressionsMax || bytes > expressionsBytesMax {
		return fmt.Errorf("%s.manifestConfigs has %d expressions of together %d bytes, and may have at most %d of %d: divide the work",
			path, number, bytes, expressionsMax, expressionsBytesMax)
	}
	return nil
}

// checkConfigs returns what is wrong with the manifestConfigs of the spec of a
// work at the path. A
// field to ignore that cannot be told is an error, as the object would not be
// applied. What cannot be reported is a warning, as the object is applied all
// the same.
func checkConfigs(path string, configs []workv1.ManifestConfigOption) (admission.Warnings, error) {
	if err := checkExpressions(path, configs); err != nil {
		return nil, err // and nothing of them is compiled
	}
	var warnings admission.Warnings
	var problems []error
	for i := range configs {
		config := &configs[i]
		where := fmt.Sprintf("%s.manifestConfigs[%d]", path, i)
		if strategy := config.UpdateStrategy; strategy != nil && strategy.ServerSideApply != nil {
			if strategy.Type == workv1.UpdateStrategyTypeServerSideApply {
				if _, err := ignore.Compile(strategy.ServerSideApply.IgnoreFields); err != nil {
					problems = append(problems, fmt.Errorf("%s: %w", where, err))
				}
			} else {
				warnings = append(warnings, fmt.Sprintf("%s.updateStrategy.serverSideApply has no effect with type %s", where, strategy.Type))
			}
		}
		for j := range config.FeedbackRules {
			for k := range config.FeedbackRules[j].JSONPaths {
				if _, err := jsonpath.Parse(config.FeedbackRules[j].JSONPaths[k].Path); err != nil {
					warnings = append(warnings, fmt.Sprintf("%s.feedbackRules[%d].jsonPaths[%d] will report nothing: %v", where, j, k, err))
				}
			}
		}
		for _, problem := range rules.Compile(config.ConditionRules).Warnings() {
			warnings = append(warnings, fmt.Sprintf("%s.conditionRules: %s", where, problem))
		}
	}
	if more := len(warnings) - warningsMax; more > 0 {
		warnings = append(warnings[:warningsMax], fmt.Sprintf("%d more warnings", more))
	}
	for i := range warnings {
		warnings[i] = strings.Join(strings.Fields(warnings[i]), " ") // a header is one line
	}
	return warnings, errors.Join(problems...)
}
