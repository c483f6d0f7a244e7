// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// namedMax is how many objects a message names.
const namedMax = 3

// AggregateConditions sums up the conditions that rules made for single objects as
// conditions of the work, in alphabetical order; without generation and
// transition time. A type that no rule made is not among them.
//
// Progressing and Degraded are True if they are True of any object; otherwise
// Unknown if they are Unknown of any; otherwise False. All other types are
// False if they are False of any object; otherwise Unknown if they are Unknown
// of any; otherwise True. Objects without a condition of the type do not count.
func AggregateConditions(manifests []workv1.ManifestCondition) []metav1.Condition {
	var names []string
	for i := range manifests {
		for j := range manifests[i].Conditions {
			if c := &manifests[i].Conditions[j]; FromRule(c) && !slices.Contains(names, c.Type) {
				names = append(names, c.Type)
			}
		}
	}
	slices.Sort(names)
	conditions := make([]metav1.Condition, 0, len(names))
	for _, name := range names {
		conditions = append(conditions, *aggregateCondition(name, manifests))
	}
	return conditions
}

// FromRule reports whether a condition of a single object was made by a rule.
func FromRule(c *metav1.Condition) bool {
	switch c.Reason {
	case workv1.ManifestReasonConditionRuleEvaluated, workv1.ManifestReasonConditionRuleInvalid,
		workv1.ManifestReasonConditionRuleExpressionError, workv1.ManifestReasonConditionRuleInternalError:
		return true
	}
	return false
}

func aggregateCondition(name string, manifests []workv1.ManifestCondition) *metav1.Condition {
	decisive := metav1.ConditionFalse
	otherwise := metav1.ConditionTrue
	if name == workv1.ManifestWorkConditionProgressing || name == workv1.ManifestWorkConditionDegraded {
		decisive, otherwise = otherwise, decisive
	}
	have := map[metav1.ConditionStatus][]int{}
	total := 0
	for i := range manifests {
		for j := range manifests[i].Conditions {
			if c := &manifests[i].Conditions[j]; c.Type == name {
				have[c.Status] = append(have[c.Status], i)
				total++
			}
		}
	}
	status := otherwise
	switch {
	case len(have[decisive]) > 0:
		status = decisive
	case len(have[metav1.ConditionUnknown]) > 0:
		status = metav1.ConditionUnknown
	}
	return newCondition(name, status, workv1.ManifestWorkReasonConditionRulesAggregated,
		aggregateMessage(name, status, have[status], total, manifests))
}

// aggregateMessage says of how many objects it holds, and names those that
// decide, with their own messages.
func aggregateMessage(name string, status metav1.ConditionStatus, which []int, total int, manifests []workv1.ManifestCondition) string {
	if total == 1 {
		return messageOf(name, &manifests[which[0]])
	}
	text := fmt.Sprintf("%s is %s of %d of %d objects", name, status, len(which), total)
	if len(which) == total {
		text = fmt.Sprintf("%s is %s of all %d objects", name, status, total)
	}
	var named []string
	for _, i := range which[:min(len(which), namedMax)] {
		named = append(named, strings.TrimSuffix(describeManifest(&manifests[i].ResourceMeta)+": "+messageOf(name, &manifests[i]), "."))
	}
	if more := len(which) - namedMax; more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return text + ": " + strings.Join(named, "; ") + "."
}

func messageOf(name string, manifest *workv1.ManifestCondition) string {
	for i := range manifest.Conditions {
		if manifest.Conditions[i].Type == name {
			return manifest.Conditions[i].Message
		}
	}
	return ""
}

func describeManifest(meta *workv1.ManifestResourceMeta) string {
	name := meta.Name
	if meta.Namespace != "" {
		name = meta.Namespace + "/" + name
	}
	return strings.TrimSpace(fmt.Sprintf("manifest %d %s", meta.Ordinal, strings.TrimSpace(meta.Kind+" "+name)))
}
