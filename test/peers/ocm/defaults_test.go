// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ocm

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/testing/env"
)

// Objects of every kind go through an API server with their definitions and
// through one with ours. Both have to make the same of them.
func TestAdmissionIsTheSame(t *testing.T) {
	env.Need(t)
	valid := defaultingInputs(t)
	// Objects that break one limit each.
	invalid := map[string]*unstructured.Unstructured{}
	for name, definition := range theirDefinitions(t) {
		whole := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		if slices.Contains(whole.Required, "spec") {
			invalid[name+" without spec"] = object(t, name, nil)
		}
		schema := property(whole.Properties, "spec")
		if schema == nil {
			continue
		}
		for path, spec := range violations(schema) {
			invalid[name+" spec"+path] = object(t, name, spec)
		}
	}
	emptyCondition := sample(t, "ManifestWork")
	configs := emptyCondition.Object["spec"].(map[string]any)["manifestConfigs"].([]any)
	configs[0].(map[string]any)["conditionRules"].([]any)[0].(map[string]any)["condition"] = ""
	invalid["ManifestWork with a CEL rule without condition"] = emptyCondition
	inputs := maps.Clone(valid)
	maps.Copy(inputs, invalid)
	theirs := admit(t, "by theirs", theirDefinitions(t), inputs)
	ours := admit(t, "by ours", ourDefinitions(t), inputs)

	t.Run("defaults are the same field by field", func(t *testing.T) {
		defaulted := 0
		for _, name := range slices.Sorted(maps.Keys(valid)) {
			if theirs[name].refused != "" {
				t.Errorf("%s: their definitions refuse it (mend the test's inputs): %s", name, theirs[name].refused)
			}
			if diff := cmp.Diff(theirs[name], ours[name], cmp.AllowUnexported(admission{})); diff != "" {
				t.Errorf("%s (-theirs +ours):\n%s", name, diff)
			}
			if !cmp.Equal(inputs[name].Object["spec"], ours[name].spec) {
				defaulted++
			}
		}
		t.Logf("%d objects compared, %d of them got defaults", len(valid), defaulted)
		if defaulted == 0 {
			t.Error("no object got a default, so this test compares nothing")
		}
	})
	t.Run("values beyond limits are refused for the same fields", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(invalid)) {
			if ours[name].refused == "" {
				t.Errorf("%s: our definitions accept it", name)
			}
			if diff := cmp.Diff(theirs[name], ours[name], cmp.AllowUnexported(admission{})); diff != "" {
				t.Errorf("%s (-theirs +ours):\n%s", name, diff)
			}
		}
		t.Logf("%d objects compared", len(invalid))
	})
}

// admission is what an API server makes of an object.
type admission struct {
	spec any
	// refused has the fields that the server finds fault with, and the faults.
	refused string
}

// admit sends the inputs to an API server with the given definitions, which
// stores none of them.
func admit(t *testing.T, side string, definitions map[string]*apiextensionsv1.CustomResourceDefinition, inputs map[string]*unstructured.Unstructured) map[string]admission {
	t.Helper()
	results := map[string]admission{}
	t.Run(side, func(t *testing.T) { // the server stops at its end
		_, config := env.Start(t, func(environment *envtest.Environment) {
			for _, definition := range definitions {
				environment.CRDs = append(environment.CRDs, definition)
			}
		})
		c, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for name, input := range inputs {
			object := input.DeepCopy()
			err := c.Create(t.Context(), object, client.DryRunAll)
			if apierrors.IsInvalid(err) {
				results[name] = admission{refused: faults(err)}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			results[name] = admission{spec: object.Object["spec"]}
		}
	})
	return results
}

// faults lists what an API server finds fault with. The texts of causes are the
// server's, made from the definition.
func faults(err error) string {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return err.Error()
	}
	var lines []string
	for _, cause := range status.ErrStatus.Details.Causes {
		lines = append(lines, fmt.Sprintf("%s: %s: %s", cause.Field, cause.Type, cause.Message))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// defaultingInputs returns objects by a name that tells what is special about
// each: one with no spec, one with every field, and for each part of the spec
// one that has this part with nothing in it.
func defaultingInputs(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	inputs := map[string]*unstructured.Unstructured{}
	for name, definition := range theirDefinitions(t) {
		inputs[name+" with every field"] = sample(t, name)
		whole := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		if !slices.Contains(whole.Required, "spec") {
			inputs[name+" without spec"] = object(t, name, nil)
		}
		schema := property(whole.Properties, "spec")
		if schema == nil {
			continue // PlacementDecision, for one, has a status only
		}
		for path, spec := range variants(schema) {
			inputs[name+" with spec"+path] = object(t, name, spec)
		}
	}
	return inputs
}

// object returns an object of the kind with the given spec, nil for none.
func object(t *testing.T, kind string, spec any) *unstructured.Unstructured {
	t.Helper()
	full := sample(t, kind)
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(full.GroupVersionKind())
	object.SetNamespace(full.GetNamespace())
	object.SetName(full.GetName())
	if spec != nil {
		object.Object["spec"] = spec
	}
	return object
}

// variants returns values of the schema by path: for each object or list in it
// one value in which this is there with no more than it requires.
func variants(schema *apiextensionsv1.JSONSchemaProps) map[string]any {
	all := map[string]any{"": minimal(schema)}
	switch schema.Type {
	case "object":
		for name, part := range schema.Properties {
			if part.Type != "object" && part.Type != "array" {
				continue
			}
			for path, value := range variants(&part) {
				whole := minimal(schema).(map[string]any)
				whole[name] = value
				all["."+name+path] = whole
			}
		}
	case "array":
		for path, value := range variants(schema.Items.Schema) {
			all["[0]"+path] = []any{value}
		}
	}
	return all
}

// violations returns values of the schema by path and limit: each breaks one
// limit and is minimal otherwise.
func violations(schema *apiextensionsv1.JSONSchemaProps) map[string]any {
	all := map[string]any{}
	for limit, value := range beyond(schema) {
		all[": "+limit] = value
	}
	for name, part := range schema.Properties {
		for path, value := range violations(&part) {
			whole := minimal(schema).(map[string]any)
			whole[name] = value
			all["."+name+path] = whole
		}
	}
	for _, name := range schema.Required {
		whole := minimal(schema).(map[string]any)
		if part := property(schema.Properties, name); part.Default == nil {
			delete(whole, name)
			all["."+name+": required"] = whole
		}
	}
	if schema.Items != nil {
		for path, value := range violations(schema.Items.Schema) {
			all["[0]"+path] = []any{value}
		}
	}
	return all
}

// beyond returns values that break a limit of the schema itself, by limit.
func beyond(schema *apiextensionsv1.JSONSchemaProps) map[string]any {
	all := map[string]any{}
	if schema.Enum != nil {
		all["enum"] = "no-such-value"
	}
	if schema.Pattern != "" {
		all["pattern"] = "!"
	}
	if schema.MaxLength != nil {
		all["maxLength"] = strings.Repeat("a", int(*schema.MaxLength)+1)
	}
	if schema.MinLength != nil {
		all["minLength"] = strings.Repeat("a", int(*schema.MinLength)-1)
	}
	if schema.Minimum != nil {
		all["minimum"] = int64(*schema.Minimum) - 1
	}
	if schema.Maximum != nil {
		all["maximum"] = int64(*schema.Maximum) + 1
	}
	if schema.MaxItems != nil {
		all["maxItems"] = slices.Repeat([]any{minimal(schema.Items.Schema)}, int(*schema.MaxItems)+1)
	}
	if schema.XListType != nil && *schema.XListType == "map" {
		all["list map keys"] = []any{minimal(schema.Items.Schema), minimal(schema.Items.Schema)}
	}
	switch schema.Type { // a value of another type
	case "string":
		all["type"] = int64(1)
	case "integer", "boolean", "object", "array":
		all["type"] = "a string"
	}
	return all
}

// minimal returns a value with no more than the schema requires. Fields that
// have a default count as not required.
func minimal(schema *apiextensionsv1.JSONSchemaProps) any {
	switch schema.Type {
	case "object":
		value := map[string]any{}
		for _, name := range schema.Required {
			if part := property(schema.Properties, name); part.Default == nil {
				value[name] = minimal(part)
			}
		}
		if schema.XEmbeddedResource {
			value["apiVersion"], value["kind"], value["metadata"] = "v1", "ConfigMap", map[string]any{"name": "a"}
		}
		return value
	case "array":
		if schema.MinItems != nil {
			return slices.Repeat([]any{minimal(schema.Items.Schema)}, int(*schema.MinItems))
		}
		return []any{}
	case "integer":
		return int64(1)
	case "boolean":
		return true
	default:
		return text(schema)
	}
}

// text returns a string that the schema allows.
func text(schema *apiextensionsv1.JSONSchemaProps) string {
	if schema.Enum != nil {
		return strings.Trim(string(schema.Enum[0].Raw), `"`)
	}
	for _, candidate := range []string{"a", "1h", "work-agent", "192.0.2.1", "open-cluster-management-a", "arn:aws:eks:us-west-2:123456789012:cluster/a", metav1.Unix(0, 0).UTC().Format("2006-01-02T15:04:05Z")} {
		if schema.Format == "date-time" && !strings.HasSuffix(candidate, "Z") || schema.Format == "byte" {
			continue
		}
		if regexp.MustCompile(schema.Pattern).MatchString(candidate) {
			return candidate
		}
	}
	return "YQ=="
}

// missingFields returns the paths of the fields that a schema has and a value,
// with all elements of its lists together, has not.
func missingFields(path string, schema *apiextensionsv1.JSONSchemaProps, values ...any) []string {
	if schema == nil {
		return nil
	}
	var missing []string
	if schema.Items != nil {
		var elements []any
		for _, value := range values {
			list, _ := value.([]any)
			elements = append(elements, list...)
		}
		return missingFields(path+"[]", schema.Items.Schema, elements...)
	}
	for name, part := range schema.Properties {
		var found []any
		for _, value := range values {
			if object, ok := value.(map[string]any); ok {
				if value, ok := object[name]; ok {
					found = append(found, value)
				}
			}
		}
		if len(found) == 0 {
			missing = append(missing, path+"."+name)
			continue
		}
		missing = append(missing, missingFields(path+"."+name, &part, found...)...)
	}
	return missing
}
