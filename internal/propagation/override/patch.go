// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"sort"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-openapi/jsonpointer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// patchOperation is an operation of RFC 6902.
type patchOperation struct {
	Op    policyv1alpha1.OverriderOperator `json:"op"`
	Path  string                           `json:"path"`
	Value json.RawMessage                  `json:"value,omitempty"`
}

// patchDocument changes a JSON document by operations, one after the other. However many there
// are, the document is read and written once. An error names the operation by its index
// in the list, which has the given name.
func patchDocument(document []byte, operations []policyv1alpha1.JSONPatchOperation, list string, left *effortBudget) ([]byte, error) {
	if len(operations) == 0 {
		return document, nil
	}
	var all jsonpatch.Patch
	size := len(document)
	for i, o := range operations {
		decoded, err := decodeOperation(o)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", list, i, err)
		}
		all, size = append(all, decoded...), size+len(o.Value.Raw)
	}
	each := readEffort + len(all)*moveEffort
	if err := left.takeEffort(size, each); err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	changed, err := applyPatch(document, all)
	if err == nil {
		return changed, nil
	}
	// Looking for the operation is work, too, and its path is in the message anyway.
	if left.takeEffort(size*bits.Len(uint(len(all)-1)), each) != nil {
		return nil, fmt.Errorf("%s: one of the operations: %w", list, err)
	}
	failed := firstFailing(document, all)
	o := operations[failed]
	if errors.Is(err, jsonpatch.ErrMissing) {
		err = fmt.Errorf("there is nothing at this path: %w", err)
	}
	return nil, fmt.Errorf("%s[%d]: %s %s: %w", list, failed, o.Operator, o.SubPath, err)
}

// firstFailing returns the index of the first operation that fails, if one does: the end
// of the shortest beginning of them that fails.
func firstFailing(document []byte, all jsonpatch.Patch) int {
	return sort.Search(len(all)-1, func(i int) bool {
		_, err := applyPatch(document, all[:i+1])
		return err != nil
	})
}

func applyPatch(document []byte, all jsonpatch.Patch) ([]byte, error) {
	options := jsonpatch.NewApplyOptions()
	options.EscapeHTML = false // the document may be a text that users read
	return all.ApplyWithOptions(document, options)
}

// decodeOperation returns an operation as a patch of its own, if it is right.
func decodeOperation(o policyv1alpha1.JSONPatchOperation) (jsonpatch.Patch, error) {
	value := o.Value
	switch o.Operator {
	case policyv1alpha1.OverriderOpAdd, policyv1alpha1.OverriderOpReplace:
		if value.IsZero() {
			return nil, fmt.Errorf("%s %s: value is missing", o.Operator, o.SubPath)
		}
	case policyv1alpha1.OverriderOpRemove:
		value = policyv1alpha1.JSON{}
	default:
		return nil, unknownOperatorError(o.Operator)
	}
	if err := checkPath(o.SubPath); err != nil {
		return nil, fmt.Errorf("%s %q: %w", o.Operator, o.SubPath, err)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode([]patchOperation{{Op: o.Operator, Path: o.SubPath, Value: value.Raw}}); err != nil {
		return nil, fmt.Errorf("%s %s: the value is not JSON: %w", o.Operator, o.SubPath, err)
	}
	decoded, err := jsonpatch.DecodePatch(text.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.Operator, o.SubPath, err)
	}
	return decoded, nil
}

// checkPath refuses paths that some would take for others.
func checkPath(path string) error {
	if path == "" {
		return errors.New("a path names a field, such as /spec/replicas")
	}
	if _, err := jsonpointer.New(path); err != nil {
		return fmt.Errorf("it is not a JSON pointer, such as /spec/replicas: %w", err)
	}
	return nil
}

// overridePlaintext changes any fields of an object but those that say which
// object it is.
func overridePlaintext(object *unstructured.Unstructured, overriders []policyv1alpha1.PlaintextOverrider, path *field.Path, left *effortBudget) error {
	if len(overriders) == 0 {
		return nil
	}
	document, err := json.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("%s: write the object as JSON: %w", path, err)
	}
	operations := make([]policyv1alpha1.JSONPatchOperation, 0, len(overriders))
	for _, o := range overriders {
		operations = append(operations, policyv1alpha1.JSONPatchOperation{SubPath: o.Path, Operator: o.Operator, Value: o.Value})
	}
	if document, err = patchDocument(document, operations, path.String(), left); err != nil {
		return err
	}
	changed := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(document, &changed.Object); err != nil {
		return fmt.Errorf("%s: read the changed object: %w", path, err)
	}
	if err := identityOf(object).checkUnchanged(changed); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := checkMetadata(changed); err != nil && checkMetadata(object) == nil { // or it came so
		return fmt.Errorf("%s: metadata would not be that of an object: %w", path, err)
	}
	object.Object = changed.Object
	return nil
}

// checkMetadata refuses metadata with fields that ObjectMeta does not have, or of another type: API
// servers drop those, or refuse the object.
func checkMetadata(object *unstructured.Unstructured) error {
	metadata, _ := object.Object["metadata"].(map[string]any)
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(metadata, &metav1.ObjectMeta{}, true) //nolint:wrapcheck // it names the field
}

// identity says which object it is. Its version is no part of that: there are
// clusters that serve another one.
type identity struct{ group, kind, namespace, name string }

func identityOf(object *unstructured.Unstructured) identity {
	return identity{object.GroupVersionKind().Group, object.GetKind(), object.GetNamespace(), object.GetName()}
}

// checkUnchanged refuses changes that have made another object of it.
func (was identity) checkUnchanged(changed *unstructured.Unstructured) error {
	is := identityOf(changed)
	for _, f := range []struct{ name, was, is string }{
		{"the group of apiVersion", was.group, is.group},
		{"kind", was.kind, is.kind},
		{"metadata.namespace", was.namespace, is.namespace},
		{"metadata.name", was.name, is.name},
	} {
		if f.was != f.is {
			return fmt.Errorf("%s would change from %q to %q: an override cannot turn it into another object", f.name, f.was, f.is)
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
		return fmt.Errorf("at path %s is not a string", path)
	}
	changed, err := change(text)
	if err != nil {
		return fmt.Errorf("at path %s: %w", path, err)
	}
	was := identityOf(object)
	if _, err := pointer.Set(object.Object, changed); err != nil {
		return fmt.Errorf("set path %s: %w", path, err)
	}
	return was.checkUnchanged(object)
}
