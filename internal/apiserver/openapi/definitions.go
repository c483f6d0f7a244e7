// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// ServedDefinitions describes all types that are served: those that are generated,
// and Taint, the only one of group core: generating that whole group would be
// more than everything else together.
func ServedDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	definitions := GetOpenAPIDefinitions(ref)
	definitions["k8s.io/api/core/v1.Taint"] = taintDefinition(ref)
	return definitions
}

func taintDefinition(ref common.ReferenceCallback) common.OpenAPIDefinition {
	text := func(description string) spec.Schema {
		return *spec.StringProperty().WithDescription(description)
	}
	required := func(s spec.Schema) spec.Schema {
		s.Default = ""
		return s
	}
	added := spec.Schema{SchemaProps: spec.SchemaProps{
		Description: "timeAdded is the time at which the taint was added.", Ref: ref(metav1.Time{}.OpenAPIModelName()),
	}}
	return common.OpenAPIDefinition{
		Schema: spec.Schema{SchemaProps: spec.SchemaProps{
			Description: "Taint keeps workloads away that do not tolerate it.",
			Type:        []string{"object"},
			Required:    []string{"key", "effect"},
			Properties: map[string]spec.Schema{
				"key":       required(text("key is the name of the taint.")),
				"value":     text("value is the value of the taint."),
				"effect":    required(text("effect is what happens to workloads that do not tolerate the taint: NoSchedule, PreferNoSchedule or NoExecute.")),
				"timeAdded": added,
			},
		}},
		Dependencies: []string{metav1.Time{}.OpenAPIModelName()},
	}
}
