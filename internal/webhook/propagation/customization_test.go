// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
)

func customization(name, kind, script string) *configv1alpha1.ResourceInterpreterCustomization {
	return &configv1alpha1.ResourceInterpreterCustomization{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target:         configv1alpha1.CustomizationTarget{APIVersion: "example.com/v1", Kind: kind},
			Customizations: configv1alpha1.CustomizationRules{HealthInterpretation: &configv1alpha1.LuaRule{LuaScript: script}},
		},
	}
}

func TestCustomizationsAreChecked(t *testing.T) {
	const good, broken = "function InterpretHealth(o) return true end", "function InterpretHealth(o)\n return o o end"
	there := []configv1alpha1.ResourceInterpreterCustomization{*customization("there", "Workload", good)}
	deleted := customization("mine", "Other", broken)
	deleted.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		old, new *configv1alpha1.ResourceInterpreterCustomization
		reading  error
		want     string
	}{
		"a script":              {new: customization("mine", "Other", good)},
		"a script that is none": {new: customization("mine", "Other", broken), want: `spec.customizations.healthInterpretation.luaScript: Invalid value: line 2: syntax error near "o"`},
		"keys that the API server dropped": {
			new:  &configv1alpha1.ResourceInterpreterCustomization{Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{Target: configv1alpha1.CustomizationTarget{APIVersion: "example.com/v1", Kind: "Other"}}},
			want: "spec.customizations: Required value: it has none of the keys that count, which are retention, replicaResource,",
		},
		"its only key becomes another": {
			old:  customization("mine", "Other", good),
			new:  &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "mine"}},
			want: "it has none of the keys that count",
		},
		"it had no key and has none": {
			old: &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "mine"}},
			new: &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "mine", Labels: map[string]string{"a": "b"}}},
		},
		"it had no key and gets one":          {old: &configv1alpha1.ResourceInterpreterCustomization{}, new: customization("mine", "Other", good)},
		"what another says":                   {new: customization("mine", "Workload", good), want: `spec.customizations.healthInterpretation: Forbidden: ResourceInterpreterCustomization "there" has a script for it already`},
		"itself":                              {new: customization("there", "Workload", good)},
		"nobody knows the others":             {new: customization("mine", "Other", good), reading: errors.New("no answer"), want: "no answer"},
		"it becomes broken":                   {old: customization("mine", "Other", good), new: customization("mine", "Other", broken), want: "line 2"},
		"it was broken and stays so":          {old: customization("mine", "Other", broken), new: customization("mine", "Other", broken)},
		"it is about to say what is said":     {old: customization("mine", "Other", good), new: customization("mine", "Workload", good), want: "has a script for it already"},
		"it is broken and its finalizer goes": {old: customization("mine", "Other", good), new: deleted},
	} {
		t.Run(name, func(t *testing.T) {
			v := customizationValidator(func(context.Context) ([]configv1alpha1.ResourceInterpreterCustomization, error) {
				return there, c.reading
			})
			var err error
			if c.old == nil {
				_, err = v.ValidateCreate(t.Context(), c.new)
			} else {
				_, err = v.ValidateUpdate(t.Context(), c.old, c.new)
			}
			switch {
			case c.want == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want a refusal with %q", err, c.want)
			case c.want != "" && c.reading == nil && !apierrors.IsInvalid(err):
				t.Errorf("got %v, want one that is Invalid", err)
			}
		})
	}
}
