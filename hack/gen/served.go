// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/openapi"
)

// generateServed makes the table of fields in the page of each kind that is served.
func generateServed(_ context.Context, root string) (generatedFiles, error) {
	place := generatedPart{begin: "<!-- fields: written by 'make generate' -->\n", end: "<!-- end of fields -->"}
	definitions := openapi.ServedDefinitions(spec.MustCreateRef)
	files := generatedFiles{}
	for page, model := range map[string]string{
		"docs/spec/karmada-cluster/cluster.md": clusterv1alpha1.Cluster{}.OpenAPIModelName(),
		"docs/spec/karmada-work/work.md":       workv1alpha1.Work{}.OpenAPIModelName(),
	} {
		rows := []string{"", "| Field | Type | Meaning |", "|---|---|---|"}
		for _, part := range []string{"spec", "status"} {
			rows = append(rows, servedRows(definitions, part, definitions[model].Schema.Properties[part])...)
		}
		var err error
		if files[page], err = place.replaceIn(root, page, strings.Join(rows, "\n")+"\n\n"); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// servedRows returns the rows of a field, and of the fields in it if its type is one
// of ours.
func servedRows(definitions map[string]common.OpenAPIDefinition, field string, schema spec.Schema) []string {
	kind, element := servedType(schema)
	meaning := strings.ReplaceAll(strings.Join(strings.Fields(schema.Description), " "), "|", `\|`)
	rows := []string{fmt.Sprintf("| `%s` | %s | %s |", field, kind, meaning)}
	if !strings.Contains(element, "karmada") {
		return rows
	}
	if strings.HasPrefix(kind, "list") {
		field += "[]"
	}
	properties := definitions[element].Schema.Properties
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		rows = append(rows, servedRows(definitions, field+"."+name, properties[name])...)
	}
	return rows
}

// servedType returns the type of a field in words, and the name of the definition
// that it refers to.
func servedType(schema spec.Schema) (words, definition string) {
	switch {
	case schema.Items != nil:
		words, definition = servedType(*schema.Items.Schema)
		return "list of " + words, definition
	case schema.AdditionalProperties != nil:
		words, definition = servedType(*schema.AdditionalProperties.Schema)
		return "map of " + words, definition
	}
	definition = schema.Ref.String()
	if definition == "" {
		return strings.Join(schema.Type, " or "), ""
	}
	if strings.Contains(definition, "karmada") {
		return "object", definition
	}
	return definition[strings.LastIndex(definition, ".")+1:], definition
}
