// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/manifestwork/jsonpath"
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
	number := 0
	bytes := 0
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

// checkOrphaning refuses rules that match nothing as they name a kind in place of its
// resource: the objects that are to stay would be deleted. The spec is at the path. Of a
// resource that may be one, it warns.
func checkOrphaning(path string, spec *workv1.ManifestWorkSpec) (admission.Warnings, error) {
	if spec.DeleteOption == nil || spec.DeleteOption.SelectivelyOrphans == nil {
		return nil, nil
	}
	singulars := singularsOf(spec.Workload.Manifests)
	var warnings admission.Warnings
	var problems []error
	for i, rule := range spec.DeleteOption.SelectivelyOrphans.OrphaningRules {
		where := fmt.Sprintf("%s.deleteOption.selectivelyOrphans.orphaningRules[%d].resource", path, i)
		resource := schema.GroupResource{Group: rule.Group, Resource: rule.Resource}
		plural, singular := singulars[resource]
		switch {
		case rule.Resource != strings.ToLower(rule.Resource), rule.Resource == "":
			guess, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: rule.Group, Kind: rule.Resource})
			problems = append(problems, fmt.Errorf("%s: %q is not a resource: want the plural name of the kind in lower case, such as %q",
				where, rule.Resource, cmp.Or(guess.Resource, "configmaps")))
		case strings.ContainsAny(rule.Resource, "/. "):
			problems = append(problems, fmt.Errorf("%s: %q is not a resource: want its plural name alone, with the API group in group", where, rule.Resource))
		case singular && len(warnings) < warningsMax:
			warnings = append(warnings, fmt.Sprintf("%s: %q looks like a kind, and then no object stays: its resource should be %q", where, rule.Resource, plural))
		}
		if len(problems) == problemsMax {
			break
		}
	}
	return warnings, errors.Join(problems...)
}

// singularsOf returns the plural names of the kinds of manifests by their singular ones,
// but for kinds that have the same name in both. The names are guessed: only the member
// knows them.
func singularsOf(manifests []workv1.Manifest) map[schema.GroupResource]string {
	plurals := map[schema.GroupResource]string{}
	for i := range manifests {
		var is metav1.TypeMeta
		if json.Unmarshal(manifests[i].Raw, &is) != nil || is.Kind == "" {
			continue // which is refused elsewhere
		}
		plural, singular := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(is.APIVersion, is.Kind))
		if plural.Resource != singular.Resource {
			plurals[singular.GroupResource()] = plural.Resource
		}
	}
	return plurals
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
				if _, err := ignore.CompileExpressions(strategy.ServerSideApply.IgnoreFields); err != nil {
					problems = append(problems, fmt.Errorf("%s: %w", where, err))
				}
			} else {
				warnings = append(warnings, fmt.Sprintf("%s.updateStrategy.serverSideApply has no effect with type %s", where, strategy.Type))
			}
		}
		for j := range config.FeedbackRules {
			for k := range config.FeedbackRules[j].JSONPaths {
				if _, err := jsonpath.ParsePath(config.FeedbackRules[j].JSONPaths[k].Path); err != nil {
					warnings = append(warnings, fmt.Sprintf("%s.feedbackRules[%d].jsonPaths[%d] will report nothing: %v", where, j, k, err))
				}
			}
		}
		for _, problem := range rules.CompileConditionRules(config.ConditionRules).RuleWarnings() {
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
