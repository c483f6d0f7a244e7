// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/untrusted/nesting"
)

// TestWhatIsWantedIsWhatIsStored has objects as overrides and customizations may leave them. The code
// by which API servers bring metadata to what they store finds nothing to change.
func TestWhatIsWantedIsWhatIsStored(t *testing.T) {
	for name, test := range map[string]struct{ metadata, want string }{
		"usual":              {"{name: web, labels: {a: b}, annotations: {c: d}}", "{name: web, labels: {a: b}, annotations: {c: d}}"},
		"an unknown field":   {"{name: web, x: y, Name: z}", "{name: web}"},
		"one of an owner":    {"{name: web, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, x: y}]}", "{name: web, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]}"},
		"empty lists, maps":  {"{name: web, finalizers: [], ownerReferences: [], managedFields: [], labels: {}, annotations: {}}", "{name: web}"},
		"empty values":       {"{name: web, generateName: '', selfLink: '', uid: '', generation: 0}", "{name: web}"},
		"nulls":              {"{name: web, creationTimestamp: null, deletionTimestamp: null, labels: null, annotations: {a: null}}", "{name: web, annotations: {a: ''}}"},
		"times of elsewhere": {"{name: web, creationTimestamp: '2020-01-01T02:00:00+02:00'}", "{name: web, creationTimestamp: '2020-01-01T00:00:00Z'}"},
		"fields of managers": {"{name: web, managedFields: [{manager: m, fieldsV1: {'f:data': {}}, x: y}]}", "{name: web, managedFields: [{manager: m, fieldsV1: {'f:data': {}}}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			object, want := parsed(t, test.metadata), parsed(t, test.want)
			if err := asStored(object); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, object); diff != "" {
				t.Errorf("what is sent (-want +got):\n%s", diff)
			}
			stored := (&unstructured.Unstructured{Object: object}).DeepCopy().Object
			if err := objectmeta.Coerce(nil, stored, nil, true, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(stored, object); diff != "" {
				t.Errorf("an API server stores something else (-stored +sent):\n%s", diff)
			}
		})
	}
}

func parsed(t *testing.T, metadata string) map[string]any {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte("{apiVersion: v1, kind: ConfigMap, metadata: " + metadata + "}"))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return object.Object
}

func TestValuesThatAreStoredOtherwise(t *testing.T) {
	zero := math.Copysign(0, -1)
	object := map[string]any{"none": nil, "zero": zero, "one": 1.5, "list": []any{nil, map[string]any{"none": nil}, zero, "a"}}
	if err := asStored(object); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"zero": int64(0), "one": 1.5, "list": []any{nil, map[string]any{}, int64(0), "a"}}
	if diff := cmp.Diff(want, object); diff != "" {
		t.Errorf("what is sent (-want +got):\n%s", diff)
	}
}

// TestWhatIsNestedWithoutEndIsNotSent has what a user may store alone, of which no list could be read as a part of works.
func TestWhatIsNestedWithoutEndIsNotSent(t *testing.T) {
	for levels, fits := range map[int]bool{100: true, nesting.LevelsMax + 1: false, 9_996: false} {
		object := map[string]any{}
		for range levels - 1 {
			object = map[string]any{"data": object}
		}
		if err := asStored(object); (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "more than 1000 levels deep") {
			t.Errorf("%d levels: %v", levels, err)
		}
	}
}

func TestMetadataThatIsNone(t *testing.T) {
	for _, metadata := range []string{"{name: web, annotations: {a: 1}}", "{name: web, finalizers: a}", "{name: web, creationTimestamp: now}"} {
		if err := asStored(parsed(t, metadata)); err == nil || !strings.Contains(err.Error(), "metadata is not that of an object") {
			t.Errorf("%s: %v", metadata, err)
		}
	}
}
