// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/install"
)

// imageField is a field of the object that an operator works for, which names
// the image of the operator.
type imageField struct {
	object client.Object
	name   string
}

// imageFields returns those fields that name the image of the operator, as make
// writes them. They follow it; another image was chosen by somebody.
func imageFields(ctx context.Context, c client.Reader, operator install.Operator, image string) ([]imageField, error) {
	names, err := operator.Instances(ctx, c)
	if err != nil {
		return nil, err
	}
	var fields []imageField
	for _, name := range names {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(operator.InstanceKind())
		if err := c.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
			return nil, fmt.Errorf("read %s %q: %w", operator.InstanceKind().Kind, name, err)
		}
		spec, _, _ := unstructured.NestedMap(object.Object, "spec")
		for _, field := range slices.Sorted(maps.Keys(spec)) {
			if strings.HasSuffix(strings.ToLower(field), "imagepullspec") && spec[field] == image {
				fields = append(fields, imageField{objectReference(operator.InstanceKind(), "", name), field})
			}
		}
	}
	return fields, nil
}

// setImage writes the field.
func (f imageField) setImage(ctx context.Context, c client.Client, image string) error {
	patch := fmt.Appendf(nil, `{"spec":{%q:%q}}`, f.name, image)
	if err := c.Patch(ctx, f.object, client.RawPatch("application/merge-patch+json", patch), client.FieldOwner(install.FieldOwner)); err != nil {
		return fmt.Errorf("set %s of %s %q: %w", f.name, f.object.GetObjectKind().GroupVersionKind().Kind, f.object.GetName(), err)
	}
	return nil
}
