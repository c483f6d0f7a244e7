// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/config"
)

// fillIn sets the defaults of an object, if it is of a kind of this release.
func fillIn(object *unstructured.Unstructured) error {
	definitions, err := config.HubCRDs()
	if err != nil {
		return err
	}
	propagating, err := config.PropagationCRDs()
	if err != nil {
		return err
	}
	for _, d := range append(definitions, propagating...) {
		if kind := object.GroupVersionKind(); d.Spec.Group != kind.Group || d.Spec.Names.Kind != kind.Kind {
			continue
		}
		for _, version := range d.Spec.Versions {
			if version.Name == object.GroupVersionKind().Version {
				return setSchemaDefaults(object.Object, version.Schema.OpenAPIV3Schema)
			}
		}
	}
	return nil
}

// setSchemaDefaults sets the defaults of a schema, as an API server does: those of fields
// that are missing in objects that are there.
func setSchemaDefaults(value any, schema *apiextensionsv1.JSONSchemaProps) error {
	switch value := value.(type) {
	case map[string]any:
		for name := range schema.Properties {
			property := schema.Properties[name]
			if _, has := value[name]; !has && property.Default != nil {
				var standard any
				if err := json.Unmarshal(property.Default.Raw, &standard); err != nil {
					return fmt.Errorf("read the default of field %s: %w", name, err)
				}
				if number, isNumber := standard.(float64); isNumber {
					standard = int64(number)
				}
				value[name] = standard
			}
			if err := setSchemaDefaults(value[name], &property); err != nil {
				return err
			}
		}
	case []any:
		if schema.Items == nil || schema.Items.Schema == nil {
			return nil
		}
		for _, item := range value {
			if err := setSchemaDefaults(item, schema.Items.Schema); err != nil {
				return err
			}
		}
	}
	return nil
}
