// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-io/capstan/config"
)

// generateFields makes the table of fields in the page of each definition.
func generateFields(_ context.Context, root string) (generatedFiles, error) {
	place := generatedPart{begin: "<!-- fields: generated from the types by 'make generate' -->\n", end: "<!-- end of fields -->\n"}
	files := generatedFiles{}
	for _, load := range []func() ([]*apiextensionsv1.CustomResourceDefinition, error){
		config.OperatorCRDs, config.ControlPlaneCRDs, config.HubCRDs, config.PropagationCRDs, config.SpokeCRDs, config.PropertyCRDs,
	} {
		definitions, err := load()
		if err != nil {
			return nil, err
		}
		for _, definition := range definitions {
			page := specPage(definition)
			if files[page], err = place.replaceIn(root, page, "\n"+fieldTable(definition)+"\n"); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// specPage is the page of a definition.
func specPage(definition *apiextensionsv1.CustomResourceDefinition) string {
	group, _, _ := strings.Cut(definition.Spec.Group, ".")
	return path.Join("docs/spec", group, definition.Spec.Names.Singular+".md")
}

// fieldTable returns a table of all fields of spec and status, in Markdown.
func fieldTable(definition *apiextensionsv1.CustomResourceDefinition) string {
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	lines := []string{"| Field | Type | Default | Limits | Meaning |", "|---|---|---|---|---|"}
	for _, part := range []string{"webhooks", "spec", "status"} {
		if own, ok := schema.Properties[part]; ok {
			lines = append(lines, fieldRows(part, &own, slices.Contains(schema.Required, part))...)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// fieldRows returns the rows of a field and, unless its type is one of
// Kubernetes itself, of the fields in it.
func fieldRows(field string, schema *apiextensionsv1.JSONSchemaProps, required bool) []string {
	limits := fieldLimits(schema)
	if required {
		limits = append([]string{"required"}, limits...)
	}
	fallback := ""
	if schema.Default != nil {
		fallback = "`" + string(schema.Default.Raw) + "`"
	}
	kind, link := fieldType(schema)
	meaning := strings.ReplaceAll(strings.Join(strings.Fields(schema.Description), " "), "|", `\|`)
	rows := []string{fmt.Sprintf("| `%s` | %s | %s | %s | %s |", field, kind, fallback, strings.Join(limits, ", "), meaning)}
	if link {
		return rows
	}
	parts := schema
	prefix := field + "."
	if schema.Items != nil {
		parts = schema.Items.Schema
		prefix = field + "[]."
	}
	for _, name := range slices.Sorted(maps.Keys(parts.Properties)) {
		part := parts.Properties[name]
		rows = append(rows, fieldRows(prefix+name, &part, slices.Contains(parts.Required, name))...)
	}
	return rows
}

// fieldType names the type of a field, and tells whether it is one of Kubernetes
// itself, whose fields Kubernetes explains.
func fieldType(schema *apiextensionsv1.JSONSchemaProps) (name string, kubernetes bool) {
	element := schema
	prefix := ""
	switch {
	case schema.Items != nil:
		element = schema.Items.Schema
		prefix = "list of "
	case schema.AdditionalProperties != nil:
		element = schema.AdditionalProperties.Schema
		prefix = "map of "
	}
	for kind, fields := range map[string][]string{
		"Condition": {"lastTransitionTime"}, "Toleration": {"effect", "tolerationSeconds"}, "LabelSelector": {"matchExpressions", "matchLabels"},
		"NodeSelectorTerm": {"matchExpressions", "matchFields"}, "ResourceRequirements": {"claims"},
	} {
		lacks := func(field string) bool {
			_, ok := element.Properties[field]
			return !ok
		}
		if !slices.ContainsFunc(fields, lacks) {
			return prefix + kind, true
		}
	}
	switch {
	case element.XIntOrString:
		return prefix + "quantity", true
	case element.XEmbeddedResource:
		return prefix + "any object", true
	case element.Format == "byte":
		return prefix + "base64", false
	case element.Format == "date-time":
		return prefix + "time", false
	default:
		return prefix + element.Type, false
	}
}

// fieldLimits says in words what values a field may have.
func fieldLimits(schema *apiextensionsv1.JSONSchemaProps) []string {
	if schema.Format == "date-time" {
		return nil // its form is that of all times
	}
	var limits []string
	if schema.Enum != nil {
		var values []string
		for _, value := range schema.Enum {
			values = append(values, "`"+strings.Trim(string(value.Raw), `"`)+"`")
		}
		limits = append(limits, "one of "+strings.Join(values, " "))
	}
	if schema.MinLength != nil && *schema.MinLength == 1 {
		limits = append(limits, "not empty")
	}
	for _, limit := range []struct {
		text  string
		value *int64
	}{
		{"at most %d characters", schema.MaxLength},
		{"at most %d elements", schema.MaxItems},
	} {
		if limit.value != nil {
			limits = append(limits, fmt.Sprintf(limit.text, *limit.value))
		}
	}
	if schema.Minimum != nil && *schema.Minimum != math.MinInt32 {
		limits = append(limits, fmt.Sprintf("at least %g", *schema.Minimum))
	}
	if schema.Maximum != nil && *schema.Maximum != math.MaxInt32 {
		limits = append(limits, fmt.Sprintf("at most %g", *schema.Maximum))
	}
	if schema.Pattern != "" {
		limits = append(limits, "`"+strings.ReplaceAll(schema.Pattern, "|", `\|`)+"`")
	}
	if len(schema.XListMapKeys) > 0 {
		limits = append(limits, "one for each "+strings.Join(schema.XListMapKeys, " and "))
	}
	return limits
}
