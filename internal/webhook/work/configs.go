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

// checkConfigs returns what is wrong with the manifestConfigs of the spec of a
// work at the path. A
// field to ignore that cannot be told is an error, as the object would not be
// applied. What cannot be reported is a warning, as the object is applied all
// the same.
func checkConfigs(path string, configs []workv1.ManifestConfigOption) (admission.Warnings, error) {
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
