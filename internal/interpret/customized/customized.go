// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package customized reads ResourceInterpreterCustomizations: which scripts they
// have, what is wrong with them, and which of them are in each other's way.
//
// It does not run scripts; package lua does.
package customized

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret/lua"
)

// TargetKind returns the kind that is customized.
func TargetKind(of *configv1alpha1.ResourceInterpreterCustomization) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(of.Spec.Target.APIVersion, of.Spec.Target.Kind)
}

// scriptRules returns the scripts by their operation.
func scriptRules(of *configv1alpha1.ResourceInterpreterCustomization) map[lua.Operation]*configv1alpha1.LuaRule {
	c := &of.Spec.Customizations
	return map[lua.Operation]*configv1alpha1.LuaRule{
		lua.Retention: c.Retention, lua.ReplicaResource: c.ReplicaResource, lua.ComponentResource: c.ComponentResource,
		lua.ReplicaRevision: c.ReplicaRevision, lua.StatusReflection: c.StatusReflection, lua.StatusAggregation: c.StatusAggregation,
		lua.HealthInterpretation: c.HealthInterpretation, lua.DependencyInterpretation: c.DependencyInterpretation,
	}
}

// LuaCustomizationOf returns what a customization says.
func LuaCustomizationOf(customization *configv1alpha1.ResourceInterpreterCustomization) lua.Customization {
	c := lua.Customization{Name: customization.Name, Kind: TargetKind(customization), Scripts: map[lua.Operation]string{}}
	for operation, rule := range scriptRules(customization) {
		if rule != nil {
			c.Scripts[operation] = rule.LuaScript
		}
	}
	return c
}

// CheckScripts returns what is wrong with the scripts of a customization, in the order of
// the operations. One without any is wrong, too: it customizes nothing.
func CheckScripts(customization *configv1alpha1.ResourceInterpreterCustomization) field.ErrorList {
	var wrong field.ErrorList
	all := scriptRules(customization)
	if !slices.ContainsFunc(slices.Collect(maps.Values(all)), func(rule *configv1alpha1.LuaRule) bool { return rule != nil }) {
		return field.ErrorList{field.Required(field.NewPath("spec", "customizations"), fmt.Sprintf(
			"it has none of the keys that count, which are %s", operationNames()))}
	}
	for _, operation := range lua.AllOperations() {
		rule := all[operation]
		if rule == nil {
			continue
		}
		if _, err := lua.CompileScript(string(operation), operation.FunctionName(), rule.LuaScript); err != nil {
			wrong = append(wrong, field.Invalid(operationPath(operation).Child("luaScript"), field.OmitValueType{}, err.Error()))
		}
	}
	return wrong
}

// operationNames returns the keys of customizations.
func operationNames() string {
	var all []string
	for _, operation := range lua.AllOperations() {
		all = append(all, string(operation))
	}
	return strings.Join(all, ", ")
}

func operationPath(operation lua.Operation) *field.Path {
	return field.NewPath("spec", "customizations", string(operation))
}

// ScriptConflicts returns the operations of a customization that others have for the same
// kind. Any number may say what an object depends on.
func ScriptConflicts(customization *configv1alpha1.ResourceInterpreterCustomization, others []configv1alpha1.ResourceInterpreterCustomization) field.ErrorList {
	var wrong field.ErrorList
	own := scriptRules(customization)
	for i := range others {
		other := &others[i]
		if other.Name == customization.Name || TargetKind(other) != TargetKind(customization) {
			continue
		}
		theirs := scriptRules(other)
		for _, operation := range lua.AllOperations() {
			if own[operation] == nil || theirs[operation] == nil || operation == lua.DependencyInterpretation {
				continue
			}
			wrong = append(wrong, field.Forbidden(operationPath(operation), fmt.Sprintf(
				"ResourceInterpreterCustomization %q has a script for it already, for the same kind %s of %s: change that one, or remove it from there first",
				other.Name, other.Spec.Target.Kind, other.Spec.Target.APIVersion)))
		}
	}
	return wrong
}
