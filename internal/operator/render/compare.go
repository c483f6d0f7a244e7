// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// HashAnnotation is on every object that an Applier wrote: the hash of what it
// wanted. A field that is wanted no longer shows in no other way.
const HashAnnotation = "capstan.io/applied-hash"

// hashBytes is how much of the SHA-256 the annotation has.
const hashBytes = 8

// mergedLists are the fields whose lists the API server merges by a key of the
// elements, so that elements of others may stand among ours. Any other list is
// ours as a whole, and an element too many is drift.
var mergedLists = map[string]bool{
	"containers": true, "initContainers": true, "env": true, "ports": true,
	"volumes": true, "volumeMounts": true, "imagePullSecrets": true,
	"hostAliases": true, "webhooks": true,
}

// ToUnstructured returns the object as the JSON that is sent for it.
func ToUnstructured(object Object) (*unstructured.Unstructured, error) {
	if u, ok := object.(interface{ UnstructuredContent() map[string]any }); ok {
		return (&unstructured.Unstructured{Object: u.UnstructuredContent()}).DeepCopy(), nil
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", object, err)
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(encoded, &u.Object); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", object, err)
	}
	return u, nil
}

// StampAppliedHash returns the object as it is sent, with the hash of what it wants in
// HashAnnotation.
func StampAppliedHash(object Object) (*unstructured.Unstructured, error) {
	u, err := ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(u.Object) // sorts the keys of maps
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", describeObject(u), err)
	}
	sum := sha256.Sum256(encoded)
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[HashAnnotation] = hex.EncodeToString(sum[:hashBytes])
	u.SetAnnotations(annotations)
	return u, nil
}

// isUnchanged reports whether live is what applying desired would make of it: the
// same was wanted the last time, and nobody has changed it since.
func isUnchanged(desired, live *unstructured.Unstructured) bool {
	if desired.GetAnnotations()[HashAnnotation] != live.GetAnnotations()[HashAnnotation] {
		return false
	}
	for key, want := range desired.Object {
		if key == "apiVersion" || key == "kind" {
			continue
		}
		if !coversValue(key, want, live.Object[key]) {
			return false
		}
	}
	return true
}

// coversValue reports whether all of want is in have, which may have more fields. The
// key is the name of the field that has them.
func coversValue(key string, want, have any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok && have != nil {
			return false
		}
		if len(w) == 0 { // "everything", as in a selector: more fields would narrow it
			return len(h) == 0
		}
		for k, v := range w {
			if !coversValue(k, v, h[k]) {
				return false
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if !ok && have != nil {
			return false
		}
		return coversList(key, w, h)
	default:
		return reflect.DeepEqual(want, have)
	}
}

func coversList(key string, want, have []any) bool {
	if !mergedLists[key] && len(want) != len(have) {
		return false
	}
	next := 0
	for _, w := range want {
		for next < len(have) && !coversValue("", w, have[next]) {
			if !mergedLists[key] {
				return false
			}
			next++
		}
		if next == len(have) {
			return false
		}
		next++
	}
	return true
}

func describeObject(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %q", object.GetKind(), client.ObjectKeyFromObject(object))
}
