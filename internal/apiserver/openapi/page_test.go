// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/openapi"
)

const (
	fieldsBegin    = "<!-- fields: written by 'make generate' -->\n"
	fieldsEnd      = "<!-- end of fields -->"
	updateVariable = "CAPSTAN_UPDATE_SPEC"
)

// page is one of docs/spec about a kind that is served.
type page struct{ path, model string }

func clusterPage() page {
	return page{"../../../docs/spec/karmada-cluster/cluster.md", clusterv1alpha1.Cluster{}.OpenAPIModelName()}
}

func workPage() page {
	return page{"../../../docs/spec/karmada-work/work.md", workv1alpha1.Work{}.OpenAPIModelName()}
}

// TestThePagesHaveTheFieldsOfTheTypes compares docs/spec with the types; 'make
// generate' makes it write the pages instead.
func TestThePagesHaveTheFieldsOfTheTypes(t *testing.T) {
	for _, p := range []page{clusterPage(), workPage()} {
		content, err := os.ReadFile(p.path)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, begins := strings.Cut(string(content), fieldsBegin)
		table, after, ends := strings.Cut(rest, fieldsEnd)
		if !begins || !ends {
			t.Fatalf("%s has no place for the table of fields: it needs the lines %q and %q", p.path, fieldsBegin, fieldsEnd)
		}
		definitions := openapi.ServedDefinitions(spec.MustCreateRef)
		rows := []string{"", "| Field | Type | Meaning |", "|---|---|---|"}
		for _, part := range []string{"spec", "status"} {
			rows = append(rows, fields(definitions, part, definitions[p.model].Schema.Properties[part])...)
		}
		want := strings.Join(rows, "\n") + "\n\n"
		if os.Getenv(updateVariable) != "" {
			if err := os.WriteFile(p.path, []byte(before+fieldsBegin+want+fieldsEnd+after), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(want, table); diff != "" {
			t.Errorf("%s is not as the types are; 'make generate' mends it (-types +page):\n%s", p.path, diff)
		}
	}
}

// fields returns the rows of a field, and of the fields in it if its type is one
// of ours.
func fields(definitions map[string]common.OpenAPIDefinition, path string, schema spec.Schema) []string {
	kind, element := describe(schema)
	meaning := strings.ReplaceAll(strings.Join(strings.Fields(schema.Description), " "), "|", `\|`)
	rows := []string{fmt.Sprintf("| `%s` | %s | %s |", path, kind, meaning)}
	if !strings.Contains(element, "karmada") {
		return rows
	}
	if strings.HasPrefix(kind, "list") {
		path += "[]"
	}
	properties := definitions[element].Schema.Properties
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		rows = append(rows, fields(definitions, path+"."+name, properties[name])...)
	}
	return rows
}

// describe returns the type of a field in words, and the name of the definition
// that it refers to.
func describe(schema spec.Schema) (words, definition string) {
	switch {
	case schema.Items != nil:
		words, definition = describe(*schema.Items.Schema)
		return "list of " + words, definition
	case schema.AdditionalProperties != nil:
		words, definition = describe(*schema.AdditionalProperties.Schema)
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

func TestThePagesExplainEveryConditionAndReason(t *testing.T) {
	for p, names := range map[page][]string{
		clusterPage(): {
			clusterv1alpha1.ClusterConditionReady, clusterv1alpha1.ClusterReasonReady, clusterv1alpha1.ClusterReasonNotReady,
			clusterv1alpha1.ClusterReasonNotReachable, clusterv1alpha1.ClusterReasonStatusUnknown,
			clusterv1alpha1.ClusterConditionCompleteAPIEnablements, clusterv1alpha1.ClusterReasonComplete,
			clusterv1alpha1.ClusterReasonPartial, clusterv1alpha1.ClusterReasonEmpty,
		},
		workPage(): {
			workv1alpha1.WorkConditionApplied, workv1alpha1.WorkReasonAppliedSuccessful, workv1alpha1.WorkReasonAppliedFailed,
		},
	} {
		content, err := os.ReadFile(p.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.Contains(string(content), "`"+name+"`") {
				t.Errorf("%s does not explain `%s`", p.path, name)
			}
		}
	}
}
