// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// dependencyEntry is what one entry of the annotation with dependencies has.
type dependencyEntry struct {
	APIVersion    string          `json:"apiVersion"`
	Kind          string          `json:"kind"`
	Namespace     string          `json:"namespace"`
	Name          string          `json:"name"`
	LabelSelector json.RawMessage `json:"labelSelector"`
}

// bindingContent is what checkBinding looks at.
func bindingContent(binding client.Object, spec *workv1alpha2.ResourceBindingSpec) any {
	return []any{binding.GetAnnotations()[workv1alpha2.AnnotationDependencies], spec.Components}
}

// checkBinding returns what is wrong with a binding of either kind.
func checkBinding(binding client.Object, spec *workv1alpha2.ResourceBindingSpec) fieldMistakes {
	var wrong fieldMistakes
	if text := binding.GetAnnotations()[workv1alpha2.AnnotationDependencies]; text != "" {
		path := field.NewPath("metadata", "annotations").Key(workv1alpha2.AnnotationDependencies)
		var all []dependencyEntry
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			wrong = append(wrong, field.Invalid(path, text, fmt.Sprintf("want a JSON list of objects with apiVersion, kind, namespace and name or labelSelector: %v", err)))
		}
	}
	first := map[string]int{}
	for i, component := range spec.Components {
		if _, twice := first[component.Name]; twice {
			wrong = append(wrong, field.Duplicate(field.NewPath("spec", "components").Index(i).Child("name"), component.Name))
		}
		first[component.Name] = i
	}
	return wrong
}
