// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-openapi/jsonpointer"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// operation is an operation of RFC 6902.
type operation struct {
	Op    policyv1alpha1.OverriderOperator `json:"op"`
	Path  string                           `json:"path"`
	Value json.RawMessage                  `json:"value,omitempty"`
}

// patch changes a JSON document.
func patch(document []byte, op policyv1alpha1.OverriderOperator, path string, value policyv1alpha1.JSON) ([]byte, error) {
	switch op {
	case policyv1alpha1.OverriderOpAdd, policyv1alpha1.OverriderOpReplace:
		if value.IsZero() {
			return nil, fmt.Errorf("%s %s: value is missing", op, path)
		}
	case policyv1alpha1.OverriderOpRemove:
		value = policyv1alpha1.JSON{}
	default:
		return nil, unknown(op)
	}
	if err := checkPath(path); err != nil {
		return nil, fmt.Errorf("%s %q: %w", op, path, err)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the document may be a text that users read
	if err := encoder.Encode([]operation{{Op: op, Path: path, Value: value.Raw}}); err != nil {
		return nil, fmt.Errorf("%s %s: the value is not JSON: %w", op, path, err)
	}
	decoded, err := jsonpatch.DecodePatch(text.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", op, path, err)
	}
	options := jsonpatch.NewApplyOptions()
	options.EscapeHTML = false
	changed, err := decoded.ApplyWithOptions(document, options)
	switch {
	case errors.Is(err, jsonpatch.ErrMissing):
		return nil, fmt.Errorf("%s %s: there is nothing at this path: %w", op, path, err)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", op, path, err)
	}
	return changed, nil
}

// checkPath refuses paths that some would take for others.
func checkPath(path string) error {
	if path == "" {
		return errors.New("a path names a field, such as /spec/replicas")
	}
	if _, err := jsonpointer.New(path); err != nil {
		return fmt.Errorf("it is no JSON pointer, such as /spec/replicas: %w", err)
	}
	return nil
}

// overridePlaintext changes any fields of an object but those that say which
// object it is.
func overridePlaintext(object *unstructured.Unstructured, overriders []policyv1alpha1.PlaintextOverrider, path *field.Path) error {
	if len(overriders) == 0 {
		return nil
	}
	document, err := json.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("%s: write the object as JSON: %w", path, err)
	}
	for i, o := range overriders {
		if document, err = patch(document, o.Operator, o.Path, o.Value); err != nil {
			return fmt.Errorf("%s: %w", path.Index(i), err)
		}
	}
	changed := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(document, &changed.Object); err != nil {
		return fmt.Errorf("%s: read the changed object: %w", path, err)
	}
	if err := identityOf(object).kept(changed); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	object.Object = changed.Object
	return nil
}

// identity says which object it is. Its version is no part of that: there are
// clusters that serve another one.
type identity struct{ group, kind, namespace, name string }

func identityOf(object *unstructured.Unstructured) identity {
	return identity{object.GroupVersionKind().Group, object.GetKind(), object.GetNamespace(), object.GetName()}
}

// kept refuses changes that have made another object of it.
func (was identity) kept(changed *unstructured.Unstructured) error {
	is := identityOf(changed)
	for _, f := range []struct{ name, was, is string }{
		{"the group of apiVersion", was.group, is.group},
		{"kind", was.kind, is.kind},
		{"metadata.namespace", was.namespace, is.namespace},
		{"metadata.name", was.name, is.name},
	} {
		if f.was != f.is {
			return fmt.Errorf("%s would change from %q to %q: an override cannot make another object of it", f.name, f.was, f.is)
		}
	}
	if changed.GroupVersionKind().Version == "" {
		return errors.New("apiVersion would have no version")
	}
	return nil
}

// overrideString changes the string at a path of the object, unless it is one that
// says which object it is.
func overrideString(object *unstructured.Unstructured, path string, change func(string) (string, error)) error {
	if err := checkPath(path); err != nil {
		return fmt.Errorf("path %q: %w", path, err)
	}
	pointer, err := jsonpointer.New(path)
	if err != nil {
		return fmt.Errorf("path %q: %w", path, err)
	}
	value, _, err := pointer.Get(object.Object)
	if err != nil {
		return fmt.Errorf("there is nothing at path %s: %w", path, err)
	}
	text, is := value.(string)
	if !is {
		return fmt.Errorf("at path %s is no string", path)
	}
	changed, err := change(text)
	if err != nil {
		return fmt.Errorf("at path %s: %w", path, err)
	}
	was := identityOf(object)
	if _, err := pointer.Set(object.Object, changed); err != nil {
		return fmt.Errorf("set path %s: %w", path, err)
	}
	return was.kept(object)
}
