// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/config"
)

// TestListsOfABindingAreBounded looks at what bindings of both kinds list: each part is
// compared with those of each cluster, and each binding that needs the object is looked for.
func TestListsOfABindingAreBounded(t *testing.T) {
	definitions, err := config.PropagationCRDs()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, definition := range definitions {
		if definition.Spec.Group != workv1alpha2.GroupName {
			continue
		}
		for _, version := range definition.Spec.Versions {
			found++
			spec := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties
			for field, list := range map[string]struct {
				schema apiextensionsv1.JSONSchemaProps
				most   int64
			}{
				"components":          {spec["components"], 256},
				"clusters.components": {spec["clusters"].Items.Schema.Properties["components"], 256},
				"requiredBy":          {spec["requiredBy"], 10_000},
			} {
				if is := list.schema.MaxItems; is == nil || *is != list.most {
					t.Errorf("%s may have %v in spec.%s, want at most %d", definition.Name, is, field, list.most)
				}
			}
		}
	}
	if found != 2 {
		t.Errorf("%d kinds of bindings were found, want 2", found)
	}
}
