// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestQuantitiesAreBounded looks at every quantity of every kind.
func TestQuantitiesAreBounded(t *testing.T) {
	found := 0
	for _, load := range []func() ([]*apiextensionsv1.CustomResourceDefinition, error){
		config.HubCRDs, config.PropagationCRDs, config.SpokeCRDs, config.PropertyCRDs, config.OperatorCRDs, config.ControlPlaneCRDs,
	} {
		definitions, err := load()
		expect.NoError(t, err)
		for _, definition := range definitions {
			for _, version := range definition.Spec.Versions {
				found += quantities(t, definition.Name+" "+version.Name, *version.Schema.OpenAPIV3Schema)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d quantities were found", found)
	}
}

// quantities returns how many there are in a schema.
func quantities(t *testing.T, at string, schema apiextensionsv1.JSONSchemaProps) int {
	t.Helper()
	found := 0
	if schema.XIntOrString && strings.Contains(schema.Pattern, "KMGTPE") {
		if found++; schema.Pattern != Pattern {
			t.Errorf("%s has the pattern %s", at, schema.Pattern)
		}
	}
	for name, property := range schema.Properties {
		found += quantities(t, at+"."+name, property)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		found += quantities(t, at+"[]", *schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		found += quantities(t, at+"{}", *schema.AdditionalProperties.Schema)
	}
	return found
}
