// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/clock"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
)

// slow is longer than any expression may take, on a machine that is busy.
const slow = 20 * JQTimeout

func FuzzJSONPath(f *testing.F) {
	for _, seed := range []string{
		".spec.replicas", "$.spec['a.b']", "..a..*", ".a[?(@.b==\"c\")].d", ".a[-1:][*]", "{.a}{.b}", ".a[1:5:0]", "[?(@.a[?(@.b)])]", ".a['b','c']",
		".[", "{range .a[*]}{.b}{end}", ".a[?(@.x>1.5)]", "\\", ".a\\.b", "[0:-1]", "[::]", "[?(@)]", "[?(@.a==@.b)]", ".a[?(1==1)]",
	} {
		f.Add(seed, deployment)
	}
	fuzz(f, func(text string) workv1.IgnoreField { return jsonPaths(text) })
}

func FuzzJSONPointer(f *testing.F) {
	for _, seed := range []string{"/spec/replicas", "/", "//", "/a~0~1", "/~", "/0/-/00", "/spec/template/spec/containers/0"} {
		f.Add(seed, deployment)
	}
	fuzz(f, func(text string) workv1.IgnoreField { return pointers(text) })
}

func FuzzJQ(f *testing.F) {
	for _, seed := range []string{
		".spec.replicas", ".. | select(.name? == \"x\")", ".a[] // .b[]?", "first(.a[], .b)", "getpath([\"a\",0])", "if .a then .b else .c end",
		".[\"a\"][-1]", "..|..|..|..|..", "last(..)", "recurse", ".a | not", ".a.b.c?", "try .a", ".a as $x | $x", "input", "$ENV", "@base64", "path(..)",
		".a | any", "any(.a[]; .b)", "IN(1,2)", "-1", ".[-1e308]", ".[1e300]?", "getpath([1e300])", ".a|contains(\"x\")", "test(\"(a*)*b\")",
		"#]", "(#\n)",
	} {
		f.Add(seed, deployment)
	}
	fuzz(f, func(text string) workv1.IgnoreField { return jqs(text) })
}

// fuzz selects fields of any manifest by any expression, and removes them.
func fuzz(f *testing.F, field func(string) workv1.IgnoreField) {
	f.Fuzz(func(t *testing.T, text, raw string) {
		started := time.Now()
		fields, err := CompileExpressions([]workv1.IgnoreField{field(text)})
		if err != nil {
			if !errors.Is(err, ErrExpression) {
				t.Errorf("Compile(%q): %v", text, err)
			}
			return
		}
		var object map[string]any
		if utiljson.Unmarshal([]byte(raw), &object) != nil || object == nil {
			return
		}
		paths, err := fields.SelectPaths(t.Context(), object, false, budget.NewBudget(clock.RealClock{}))
		if took := time.Since(started); took > slow {
			t.Errorf("%q took %s", text, took)
		}
		if err != nil {
			return
		}
		for _, path := range paths {
			if isRequiredPath(path) {
				t.Errorf("%q selects %s", text, path)
			}
		}
		_, _, err = DisownFields([]metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)}},
			func(*metav1.ManagedFieldsEntry) bool { return true }, object, paths, nil)
		if err != nil && !errors.Is(err, ErrExpression) {
			t.Errorf("Disown: %v", err)
		}
		RemovePaths(object, paths)
		if _, err := json.Marshal(object); err != nil {
			t.Errorf("after removing %v: %v", paths, err)
		}
		if left := stillThere(object, paths); left != nil {
			t.Errorf("%q: %s is still there", text, left)
		}
	})
}

// stillThere returns a path that an object has, or nil.
func stillThere(object map[string]any, paths []Path) Path {
	for _, path := range paths {
		// Where a list item was, there may be the next one.
		if _, isName := path[len(path)-1].(string); isName && has(object, path) && !throughList(path) {
			return path
		}
	}
	return nil
}

func has(object map[string]any, path Path) bool {
	var value any = object
	for _, step := range path {
		if value = childValue(value, step); value == nil {
			return false
		}
	}
	return true
}

func throughList(path Path) bool {
	for _, step := range path {
		if _, isIndex := step.(int); isIndex {
			return true
		}
	}
	return false
}

func FuzzManagedFields(f *testing.F) {
	f.Add([]byte(`{"f:spec":{"f:replicas":{}}}`))
	f.Add([]byte(`{"f:a":{"k:{\"name\":\"web\"}":{".":{}},"v:1":{},"i:0":{}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		paths := []Path{{"spec", "replicas"}, {"spec", "template", "spec", "containers", 0, "image"}}
		rest, changed, err := DisownFields([]metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(string(raw))}},
			func(*metav1.ManagedFieldsEntry) bool { return true }, decode(t, deployment), paths, nil)
		if err == nil && !changed && len(rest) != 1 {
			t.Errorf("nothing changed, and %d entries are left", len(rest))
		}
	})
}
