// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// lasting returns the fields of an object that stay as they are whoever writes it.
func lasting(object map[string]any) map[string]any {
	object = (&unstructured.Unstructured{Object: object}).DeepCopy().Object
	for _, path := range [][]string{
		{"apiVersion"}, {"metadata", "managedFields"}, {"metadata", "generation"}, {"metadata", "resourceVersion"},
	} {
		unstructured.RemoveNestedField(object, path...)
	}
	return object
}

// unset returns the fields of a schema that none of the values has.
func unset(path string, schema *apiextensionsv1.JSONSchemaProps, values []any) []string {
	if len(values) == 0 {
		return []string{path}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		all = append(all, unset(path+"."+name, &property, fields(values, name))...)
	}
	if schema.Items != nil {
		var items []any
		for _, value := range values {
			list, _ := value.([]any)
			items = append(items, list...)
		}
		all = append(all, unset(path+"[]", schema.Items.Schema, items)...)
	}
	return all
}

// fields returns the field of that name of all objects that have it.
func fields(objects []any, name string) []any {
	var all []any
	for _, object := range objects {
		tree, _ := object.(map[string]any)
		if value, ok := tree[name]; ok {
			all = append(all, value)
		}
	}
	return all
}
