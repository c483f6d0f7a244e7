// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

func TestCommandAndArgs(t *testing.T) {
	for name, test := range map[string]struct {
		field string
		o     policyv1alpha1.CommandArgsOverrider
		of    int // which container
		want  any
	}{
		"append":                      {"command", policyv1alpha1.CommandArgsOverrider{ContainerName: "web", Operator: "add", Value: []string{"a", "b"}}, 1, []any{"serve", "-v", "-v", "a", "b"}},
		"all that are equal":          {"command", policyv1alpha1.CommandArgsOverrider{ContainerName: "web", Operator: "remove", Value: []string{"-v", "none"}}, 1, []any{"serve"}},
		"nothing is left":             {"args", policyv1alpha1.CommandArgsOverrider{ContainerName: "web", Operator: "remove", Value: []string{"--port=80"}}, 1, nil},
		"not a prefix":                {"args", policyv1alpha1.CommandArgsOverrider{ContainerName: "web", Operator: "remove", Value: []string{"--port"}}, 1, []any{"--port=80"}},
		"there were none":             {"args", policyv1alpha1.CommandArgsOverrider{ContainerName: "side", Operator: "add", Value: []string{"a"}}, 2, []any{"a"}},
		"there were none to remove":   {"args", policyv1alpha1.CommandArgsOverrider{ContainerName: "side", Operator: "remove", Value: []string{"a"}}, 2, nil},
		"of one that runs first":      {"command", policyv1alpha1.CommandArgsOverrider{ContainerName: "init", Operator: "add", Value: []string{"true"}}, 0, []any{"sh", "-c", "true"}},
		"of another container":        {"command", policyv1alpha1.CommandArgsOverrider{ContainerName: "db", Operator: "add", Value: []string{"a"}}, 1, []any{"serve", "-v", "-v"}},
		"no values":                   {"command", policyv1alpha1.CommandArgsOverrider{ContainerName: "web", Operator: "add"}, 1, []any{"serve", "-v", "-v"}},
		"no values where none are":    {"args", policyv1alpha1.CommandArgsOverrider{ContainerName: "side", Operator: "add"}, 2, nil},
		"the empty string is a value": {"args", policyv1alpha1.CommandArgsOverrider{ContainerName: "side", Operator: "add", Value: []string{""}}, 2, []any{""}},
	} {
		t.Run(name, func(t *testing.T) {
			o := policyv1alpha1.Overriders{CommandOverrider: []policyv1alpha1.CommandArgsOverrider{test.o}}
			if test.field == "args" {
				o = policyv1alpha1.Overriders{ArgsOverrider: []policyv1alpha1.CommandArgsOverrider{test.o}}
			}
			changed, err := overridden(t, web(), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, containersOf(t, changed)[test.of][test.field]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			other := map[string]string{"args": "command", "command": "args"}[test.field]
			if diff := cmp.Diff(containersOf(t, web())[test.of][other], containersOf(t, changed)[test.of][other]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", other, diff)
			}
		})
	}
	_, err := overridden(t, web(), policyv1alpha1.Overriders{ArgsOverrider: []policyv1alpha1.CommandArgsOverrider{{ContainerName: "web", Operator: "replace"}}})
	if want := `OverridePolicy shop/one: spec.overrideRules[0].overriders.argsOverrider[0]: unknown operator "replace": use add or remove`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOddContainers(t *testing.T) {
	for name, containers := range map[string]any{
		"none": nil, "empty": []any{}, "no list": "nginx", "no maps": []any{"nginx", int64(1), nil}, "a map": map[string]any{"name": "web"},
	} {
		object := web()
		object.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}}
		changed, err := overridden(t, object, policyv1alpha1.Overriders{
			ImageOverrider:   []policyv1alpha1.ImageOverrider{{Component: "Tag", Operator: "replace", Value: "2"}},
			CommandOverrider: []policyv1alpha1.CommandArgsOverrider{{ContainerName: "web", Operator: "add", Value: []string{"a"}}},
		})
		if err != nil || !cmp.Equal(object.Object, changed.Object) {
			t.Errorf("%s: %v, %v", name, changed, err)
		}
	}
}

func TestLabelsAndAnnotations(t *testing.T) {
	for name, test := range map[string]struct {
		before map[string]string
		all    []policyv1alpha1.LabelAnnotationOverrider
		want   map[string]string
	}{
		"add":                {map[string]string{"a": "1"}, []policyv1alpha1.LabelAnnotationOverrider{{Operator: "add", Value: map[string]string{"a": "2", "b": "3"}}}, map[string]string{"a": "2", "b": "3"}},
		"add to none":        {nil, []policyv1alpha1.LabelAnnotationOverrider{{Operator: "add", Value: map[string]string{"a": "2"}}}, map[string]string{"a": "2"}},
		"replace":            {map[string]string{"a": "1"}, []policyv1alpha1.LabelAnnotationOverrider{{Operator: "replace", Value: map[string]string{"a": "2", "b": "3"}}}, map[string]string{"a": "2"}},
		"replace in none":    {nil, []policyv1alpha1.LabelAnnotationOverrider{{Operator: "replace", Value: map[string]string{"a": "2"}}}, nil},
		"remove by key":      {map[string]string{"a": "1", "b": "2"}, []policyv1alpha1.LabelAnnotationOverrider{{Operator: "remove", Value: map[string]string{"a": "other", "c": ""}}}, map[string]string{"b": "2"}},
		"remove the last":    {map[string]string{"a": "1"}, []policyv1alpha1.LabelAnnotationOverrider{{Operator: "remove", Value: map[string]string{"a": ""}}}, nil},
		"one after another":  {nil, []policyv1alpha1.LabelAnnotationOverrider{{Operator: "add", Value: map[string]string{"a": "1"}}, {Operator: "replace", Value: map[string]string{"a": "2"}}}, map[string]string{"a": "2"}},
		"a key with a slash": {map[string]string{"x/y": "1"}, []policyv1alpha1.LabelAnnotationOverrider{{Operator: "replace", Value: map[string]string{"x/y": "2"}}}, map[string]string{"x/y": "2"}},
		"no values":          {map[string]string{"a": "1"}, []policyv1alpha1.LabelAnnotationOverrider{{Operator: "remove"}}, map[string]string{"a": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			object := web()
			object.SetLabels(test.before)
			object.SetAnnotations(test.before)
			changed, err := overridden(t, object, policyv1alpha1.Overriders{LabelsOverrider: test.all})
			if err != nil || !cmp.Equal(test.want, changed.GetLabels()) || !cmp.Equal(test.before, changed.GetAnnotations()) {
				t.Errorf("labels: %v, annotations %v: %v", changed.GetLabels(), changed.GetAnnotations(), err)
			}
			changed, err = overridden(t, object, policyv1alpha1.Overriders{AnnotationsOverrider: test.all})
			if err != nil || !cmp.Equal(test.want, changed.GetAnnotations()) || !cmp.Equal(test.before, changed.GetLabels()) {
				t.Errorf("labels: %v, annotations %v: %v", changed.GetLabels(), changed.GetAnnotations(), err)
			}
		})
	}
	if _, err := overridden(t, web(), policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: "set", Value: map[string]string{"a": "1"}}}}); err == nil {
		t.Error("an operator that is not known is refused")
	}
	odd := web()
	unstructured.RemoveNestedField(odd.Object, "metadata", "labels")
	odd.Object["metadata"].(map[string]any)["labels"] = map[string]any{"kept": "yes", "number": int64(1)}
	if _, err := overridden(t, odd, policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: "add", Value: map[string]string{"a": "1"}}}}); err == nil {
		t.Error("labels that are not strings are not thrown away")
	}
}
