// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
	return []any{binding.GetAnnotations()[workv1alpha2.AnnotationDependencies], spec.Components, spec.ReplicaRequirements}
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
	path := field.NewPath("spec")
	if needs := spec.ReplicaRequirements; needs != nil {
		wrong = append(wrong, checkRequests(needs.ResourceRequest, path.Child("replicaRequirements", "resourceRequest"))...)
	}
	first := map[string]int{}
	for i, component := range spec.Components {
		if needs := component.ReplicaRequirements; needs != nil {
			wrong = append(wrong, checkRequests(needs.ResourceRequest, path.Child("components").Index(i).Child("replicaRequirements", "resourceRequest"))...)
		}
		if _, twice := first[component.Name]; twice {
			wrong = append(wrong, field.Duplicate(path.Child("components").Index(i).Child("name"), component.Name))
		}
		first[component.Name] = i
	}
	return wrong
}

// checkRequests refuses requests of less than nothing: they would make room for others.
func checkRequests(requests corev1.ResourceList, path *field.Path) fieldMistakes {
	var wrong fieldMistakes
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if amount := requests[name]; amount.Sign() < 0 {
			wrong = append(wrong, field.Invalid(path.Key(string(name)), amount.String(), "must not be less than 0"))
		}
	}
	return wrong
}
