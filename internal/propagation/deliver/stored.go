// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/override"
	"github.com/capstan-io/capstan/internal/untrusted/nesting"
)

// applyOverrides returns what a cluster gets of an object, as override.Policies.Apply does, in the form
// in which the hub stores it.
func applyOverrides(object *unstructured.Unstructured, policies override.Policies, cluster *view.Cluster) (*unstructured.Unstructured, override.AppliedOverrides, error) {
	changed, applied, err := policies.ApplyToObject(object, cluster)
	if err != nil {
		return nil, applied, err //nolint:wrapcheck // it names the policy and the field
	}
	if err := asStored(changed.Object); err != nil {
		return nil, applied, fmt.Errorf("%s %q as overridden for cluster %q: %w", changed.GetKind(), changed.GetName(), cluster.Name, err)
	}
	return changed, applied, nil
}

// asStored changes an object to what the API server of the hub stores of it as the manifest of a
// work. A work that was made of anything else would differ from what is wanted for ever, and would be
// written again and again. Metadata has the fields of ObjectMeta, as the schema of manifests says that
// they are objects (x-kubernetes-embedded-resource). Fields that are null are left out at any depth:
// API servers take them from the value of a merge patch, but not from a work that is created. What is nested too deeply is
// refused: a user's object may be stored alone, where a list of works with it could not be read.
func asStored(object map[string]any) error {
	if metadata, is := object["metadata"].(map[string]any); is {
		known := &metav1.ObjectMeta{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(metadata, known); err != nil {
			return fmt.Errorf("metadata is not that of an object: %w", err)
		}
		metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(known)
		if err != nil {
			return fmt.Errorf("encoding metadata: %w", err)
		}
		object["metadata"] = metadata
	}
	if err := nesting.CheckLevels(object); err != nil {
		return err //nolint:wrapcheck // it is about the object
	}
	storedValue(object)
	return nil
}

// storedValue changes a value to what is stored of it, at any depth. Elements of lists that are null
// stay, as API servers leave them, and they read -0 as the integer 0.
func storedValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if field == nil {
				delete(value, name)
			} else {
				value[name] = storedValue(field)
			}
		}
	case []any:
		for i, element := range value {
			value[i] = storedValue(element)
		}
	case float64:
		if value == 0 {
			return int64(0)
		}
	}
	return value
}
