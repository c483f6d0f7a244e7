// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
)

// ConditionTypes returns the types of the conditions that EvaluateRules makes for an object
// of the kind, in the rules' order: for an object that cannot be read.
func (s *ConditionRuleSet) ConditionTypes(kind schema.GroupVersionKind, kinds interpret.Chain) []string {
	if s.IsEmpty() {
		return nil
	}
	var types []string
	for i := range s.rules {
		r := &s.rules[i]
		if r.wellKnown && r.broken == nil {
			switch r.condition {
			case workv1.ManifestConditionComplete:
				if kinds.Operations(kind).Complete == nil {
					continue
				}
			case workv1.ManifestConditionProgressing, workv1.ManifestConditionDegraded:
			default:
				continue
			}
		}
		types = append(types, r.condition)
	}
	return types
}

// AggregateType is as AggregateConditions for the conditions of one type, whoever made
// them, with the reason.
func AggregateType(name, reason string, manifests []workv1.ManifestCondition) metav1.Condition {
	c := aggregateCondition(name, manifests)
	c.Reason = reason
	return *c
}
