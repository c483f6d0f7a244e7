// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules derives conditions from the state of objects with the condition
// rules of a ManifestWork, and aggregates them for the work.
//
// It is pure. Rules come from users, so whatever they say is bounded in time
// and memory: how many there are, and what they may cost together. What a single
// expression may cost is limited by package expression.
package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret/expression"
)

const (
	// RulesMax is how many rules there are for one object.
	RulesMax = 64
	// SetBytesMax is the length in bytes of all CEL expressions for one object
	// together.
	SetBytesMax = 64 << 10
	// SetCostMax is what all CEL expressions for one object may cost together, in
	// the cost units of CEL.
	SetCostMax = 10_000_000
	// MessageBytesMax is the length of a condition's message in bytes; longer ones
	// are cut.
	MessageBytesMax = 4 << 10

	// typeBytesMax is the length that the API allows for the type of a condition.
	typeBytesMax = 316
)

// conditionType is what the API allows as the type of a condition.
var conditionType = regexp.MustCompile(
	`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`)

// ConditionRuleSet has condition rules in a form that is quick to evaluate. It does not
// change and may be used by several goroutines.
type ConditionRuleSet struct {
	rules    []compiledRule
	problems []string
}

// compiledRule is a rule that can be evaluated, or the condition that tells why it
// cannot.
type compiledRule struct {
	condition string
	message   string                // that the user gave
	text      *expression.Program   // of messageExpression, nil without one
	textError string                // why there is no text
	wellKnown bool                  // and no expressions then
	programs  []*expression.Program // that have to be true
	broken    *metav1.Condition
}

// CompileConditionRules prepares rules. It never fails: a rule that is broken gives a
// condition that says so, with reason ConditionRuleInvalid or
// ConditionRuleExpressionError, and one that cannot even have a condition is
// among the RuleProblems.
func CompileConditionRules(rules []workv1.ConditionRule) *ConditionRuleSet {
	set := &ConditionRuleSet{}
	left := SetBytesMax
	if len(rules) > RulesMax {
		set.problems = append(set.problems, fmt.Sprintf("there are %d condition rules, only the first %d apply", len(rules), RulesMax))
		rules = rules[:RulesMax]
	}
	for i := range rules {
		r := &rules[i]
		name := nameOf(r)
		if problem := conditionTypeProblem(name); problem != "" {
			set.problems = append(set.problems, fmt.Sprintf("condition rule %d: %s", i, problem))
			continue
		}
		if slices.ContainsFunc(set.rules, func(other compiledRule) bool { return other.condition == name }) {
			set.problems = append(set.problems, fmt.Sprintf("condition rule %d: there is another rule for condition %q; the first one applies", i, name))
			continue
		}
		set.rules = append(set.rules, compileRule(r, name, &left))
	}
	return set
}

// RuleProblems are the rules that can give no condition, each with the reason, in
// words for their user.
func (s *ConditionRuleSet) RuleProblems() []string { return slices.Clone(s.problems) }

// RuleWarnings are the RuleProblems, and what is known to be wrong with the other rules
// before any object is looked at, in words for their user.
func (s *ConditionRuleSet) RuleWarnings() []string {
	warnings := s.RuleProblems()
	for i := range s.rules {
		r := &s.rules[i]
		if r.broken != nil {
			warnings = append(warnings, fmt.Sprintf("condition %q: %s", r.condition, r.broken.Message))
		}
		if r.textError != "" {
			warnings = append(warnings, fmt.Sprintf("condition %q: %s", r.condition, r.textError))
		}
	}
	return warnings
}

// IsEmpty reports whether there is nothing to evaluate.
func (s *ConditionRuleSet) IsEmpty() bool { return s == nil || len(s.rules) == 0 }

// nameOf is the type of the condition that a rule makes. A well-known rule
// without one means the only one that every version of this API knew.
func nameOf(r *workv1.ConditionRule) string {
	if r.Condition == "" && r.Type == workv1.ConditionRuleTypeWellKnownConditions {
		return workv1.ManifestConditionComplete
	}
	return r.Condition
}

// conditionTypeProblem tells why no rule can make a condition of this type. One that the API
// server refuses would make it refuse the whole status.
func conditionTypeProblem(name string) string {
	switch {
	case name == "":
		return "condition is missing"
	case len(name) > typeBytesMax:
		return fmt.Sprintf("condition is longer than %d bytes", typeBytesMax)
	case !conditionType.MatchString(name):
		return fmt.Sprintf("%q cannot be the type of a condition; use a word in CamelCase", name)
	case name == workv1.ManifestConditionApplied || name == workv1.ManifestConditionStatusFeedbackSynced ||
		name == workv1.ManifestWorkConditionDeleting:
		return fmt.Sprintf("condition %q is reserved by the agent; choose another name", name)
	}
	return ""
}

// compileRule prepares one rule; left is what its expressions may be long.
func compileRule(r *workv1.ConditionRule, name string, left *int) compiledRule {
	c := compiledRule{condition: name, message: r.Message}
	invalid := func(format string, args ...any) compiledRule {
		c.broken = newCondition(name, metav1.ConditionUnknown, workv1.ManifestReasonConditionRuleInvalid, fmt.Sprintf(format, args...))
		return c
	}
	switch {
	case r.Type == workv1.ConditionRuleTypeWellKnownConditions:
		c.wellKnown = true
	case r.Type != workv1.ConditionRuleTypeCEL:
		return invalid("The rule has an unknown type %q; use CEL or WellKnownConditions.", r.Type)
	case len(r.CELExpressions) == 0:
		return invalid("The rule has type CEL and no celExpressions.")
	}
	for i, text := range slices.Concat(r.CELExpressions, []string{r.MessageExpression}) {
		if len(text) > expression.BytesMax {
			field := "messageExpression"
			if i < len(r.CELExpressions) {
				field = fmt.Sprintf("celExpressions[%d]", i)
			}
			return invalid("%s has %d bytes; the limit is %d.", field, len(text), expression.BytesMax)
		}
		if *left -= len(text); *left < 0 {
			return invalid("The expressions of all rules for this object have more than %d bytes, the limit.", SetBytesMax)
		}
	}
	if !c.wellKnown {
		for i, text := range r.CELExpressions {
			program, err := compileBool(text)
			if err != nil {
				c.broken = notValid(name, i, err)
				return c
			}
			c.programs = append(c.programs, program)
		}
	}
	if r.MessageExpression != "" {
		var err error
		if c.text, err = compileText(r.MessageExpression); err != nil {
			c.textError = "The rule's messageExpression is not valid: " + err.Error()
		}
	}
	return c
}

// newCondition makes a condition without generation and time.
func newCondition(name string, status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: name, Status: status, Reason: reason, Message: cutMessage(message)}
}

// failedCondition is the condition of a rule whose expression failed. It is False, which
// is what users of this API count on, but for Progressing: there False means
// that the object has arrived, and a rollout would go on to the next cluster.
func failedCondition(name, message string) *metav1.Condition {
	status := metav1.ConditionFalse
	if name == workv1.ManifestConditionProgressing {
		status = metav1.ConditionUnknown
	}
	return newCondition(name, status, workv1.ManifestReasonConditionRuleExpressionError, message)
}

func cutMessage(message string) string {
	message = strings.ToValidUTF8(message, "?")
	if len(message) <= MessageBytesMax {
		return message
	}
	return strings.ToValidUTF8(message[:MessageBytesMax-len("...")], "") + "..."
}
