// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// trial is a Placement as the hub would have it.
type trial struct {
	placement *clusterv1beta1.Placement
	// live is the one that is there, nil if there is none.
	live *clusterv1beta1.Placement
	// note says why the hub did not check it; "" if it did.
	note string
}

// try lets the hub check a Placement and fill in its defaults, as a dry run. For
// a user who may not write one, the defaults are those of this release.
func try(ctx context.Context, c client.Client, written *unstructured.Unstructured) (*trial, error) {
	t := &trial{}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(written.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(written), live)
	switch {
	case apierrors.IsNotFound(err) && hub.Served(err):
		live = nil
	case err != nil:
		return nil, err
	default:
		if t.live, err = typed(live); err != nil {
			return nil, err
		}
	}
	checked := written.DeepCopy()
	dry := client.WithFieldValidation(client.NewDryRunClient(c), metav1.FieldValidationStrict)
	if live == nil {
		err = dry.Create(ctx, checked)
	} else {
		checked = live.DeepCopy()
		checked.Object["spec"] = written.Object["spec"]
		err = dry.Update(ctx, checked)
	}
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		t.note = fmt.Sprintf("The hub did not check placement %s/%s: %v", written.GetNamespace(), written.GetName(), err)
		checked = written.DeepCopy()
		err = fillIn(checked.Object)
	}
	if err != nil {
		return nil, err
	}
	t.placement, err = typed(checked)
	return t, err
}

func typed(object *unstructured.Unstructured) (*clusterv1beta1.Placement, error) {
	p := &clusterv1beta1.Placement{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, p); err != nil {
		return nil, fmt.Errorf("decode placement %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return p, nil
}

// fillIn sets the defaults of a Placement.
func fillIn(object map[string]any) error {
	definitions, err := config.HubCRDs()
	if err != nil {
		return err
	}
	for _, d := range definitions {
		if d.Spec.Group == clusterv1beta1.GroupName && d.Spec.Names.Kind == "Placement" {
			return defaults(object, d.Spec.Versions[0].Schema.OpenAPIV3Schema)
		}
	}
	return nil
}

// defaults sets the defaults of a schema, as an API server does: those of fields
// that are missing in objects that are there.
func defaults(value any, schema *apiextensionsv1.JSONSchemaProps) error {
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
			if err := defaults(value[name], &property); err != nil {
				return err
			}
		}
	case []any:
		if schema.Items == nil || schema.Items.Schema == nil {
			return nil
		}
		for _, item := range value {
			if err := defaults(item, schema.Items.Schema); err != nil {
				return err
			}
		}
	}
	return nil
}
