// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestUndeclaredFieldsAreFound(t *testing.T) {
	content, err := NormalizedContent(t.Context(), []byte(`{"apiVersion":"example.com/v1","kind":"X","metadata":{"name":"a","labels":{"a.b/c":"d"},"odd":1},"spec":{"nope":1,
"map":{"a.b":{"c":1},"a":{"b":{"d":1}},"x[0]":{"e":1}},
"containers":[{"name":"a","image":"i"},{"name":"b]=\"","imagine":"x","ports":[{"containerPort":80,"port":1},{"containerPort":80,"protocol":"UDP","port":2}]}],
"list":[{"f":1},{"f":2}]}}`))
	expect.NoError(t, err)
	const undeclared = ": field not declared in schema"
	for name, tc := range map[string]struct {
		text string
		want string
	}{
		"one":                   {".spec.nope" + undeclared, ".spec.nope"},
		"several":               {"errors:\n  .spec.nope" + undeclared + "\n  .spec.map.a.b.d" + undeclared, ".spec.map.a.b.d .spec.nope"},
		"others besides":        {"errors:\n  .spec.containers: duplicate entries for key [name=\"a\"]\n  .spec.nope" + undeclared, ".spec.nope"},
		"a name with a dot":     {".spec.map.a.b.c" + undeclared, ".spec.map.a.b.c"},
		"a name with brackets":  {".spec.map.x[0].e" + undeclared, ".spec.map.x[0].e"},
		"an item by its key":    {`.spec.containers[name="b]=\""].imagine` + undeclared, ".spec.containers[1].imagine"},
		"a key that is default": {`.spec.containers[name="b]=\""].ports[containerPort=80,protocol="TCP"].port` + undeclared, ".spec.containers[1].ports[0].port"},
		"a key of two":          {`.spec.containers[name="b]=\""].ports[containerPort=80,protocol="UDP"].port` + undeclared, ".spec.containers[1].ports[1].port"},
		"an item by its index":  {".spec.list[1].f" + undeclared, ".spec.list[1].f"},
		"of the metadata":       {".metadata.odd" + undeclared, ".metadata.odd"},
		"what is not there":     {".spec.other" + undeclared, ""},
		"an item that is not":   {`.spec.containers[name="c"].image` + undeclared, ""},
		"what an object needs":  {"errors:\n  .metadata" + undeclared + "\n  .metadata.name" + undeclared + "\n  .kind" + undeclared + "\n  .apiVersion" + undeclared, ""},
		"half a key":            {".spec.containers[name" + undeclared, ""},
		"another fault":         {".spec.nope: expected string, got 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			status := &apierrors.StatusError{ErrStatus: metav1.Status{Message: "failed to create typed patch object (n/a; example.com/v1, Kind=X): " + tc.text}}
			var names []string
			for _, path := range UndeclaredFields(fmt.Errorf("writing: %w", status), content) {
				names = append(names, FieldName(path))
			}
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("Undeclared: got %q, want %q", got, tc.want)
			}
		})
	}
	for _, err := range []error{
		nil, errors.New("failed to create typed patch object (a): .spec.nope" + undeclared),
		&apierrors.StatusError{ErrStatus: metav1.Status{Message: "admission webhook denied the request: (a): .spec.nope" + undeclared}},
	} {
		if paths := UndeclaredFields(err, content); paths != nil {
			t.Errorf("Undeclared(%v): %v", err, paths)
		}
	}
}

func FuzzUndeclaredFieldsAreFoundWithoutPanic(f *testing.F) {
	f.Add(`.a[b="c",d=1].e`, `{"a":[{"b":"c","e":1}]}`)
	f.Add(`.a[=`, `{"a":[{"":1}]}`)
	f.Add(`.a[b=`, `{"a":[{"c":1}]}`)
	f.Fuzz(func(t *testing.T, name, raw string) {
		content, err := NormalizedContent(t.Context(), []byte(raw))
		if err != nil {
			return
		}
		status := &apierrors.StatusError{ErrStatus: metav1.Status{Message: undeclaredPrefix + "(a): " + name + undeclaredSuffix}}
		for _, path := range UndeclaredFields(status, content) {
			if !isOptional(path) {
				t.Errorf("%q in %s is %v", name, raw, path)
			}
		}
	})
}

// TestAMembersErrorIsReadInTime has lists within lists, of which each level could be looked at twice, and an
// error of many lines.
func TestAMembersErrorIsReadInTime(t *testing.T) {
	var deep any = "x"
	name := ".spec"
	for range 60 {
		deep, name = []any{deep}, name+"[0]"
	}
	lines := strings.Repeat("    "+name+".none"+undeclaredSuffix+"\n", 100_000)
	err := &apierrors.StatusError{ErrStatus: metav1.Status{Message: undeclaredPrefix + "(a/b; v1, Kind=C): errors:\n" + lines}}
	if paths := UndeclaredFields(err, map[string]any{"spec": deep}); paths != nil {
		t.Errorf("found %v", paths)
	}
}

func TestImmutableFieldsAreNamed(t *testing.T) {
	cause := func(field, message string) metav1.StatusCause {
		return metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: message}
	}
	of := func(causes ...metav1.StatusCause) error {
		return fmt.Errorf("writing: %w", &apierrors.StatusError{ErrStatus: metav1.Status{
			Reason: metav1.StatusReasonInvalid, Code: 422, Details: &metav1.StatusDetails{Causes: causes},
		}})
	}
	const immutable = `Invalid value: "a": field is immutable`
	for name, tc := range map[string]struct {
		err  error
		want []string
	}{
		"one":               {of(cause("type", immutable)), []string{"type"}},
		"one, twice":        {of(cause("type", immutable), cause("type", immutable)), []string{"type"}},
		"a role":            {of(cause("roleRef", "Invalid value: x: cannot change roleRef")), []string{"roleRef"}},
		"something besides": {of(cause("type", immutable), cause("data", "too long")), nil},
		"something else":    {of(cause("data", "too long")), nil},
		"a conflict":        {apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "deployments"}, "d", errors.New("field is immutable")), nil},
		"no details":        {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Code: 422}}, nil},
		"success":           {nil, nil},
	} {
		if got := ImmutableFields(tc.err); !slices.Equal(got, tc.want) {
			t.Errorf("%s: Immutable: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestWhoMadeAnObject(t *testing.T) {
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	ours := func(e *metav1.ManagedFieldsEntry) bool { return e.Manager == "ours" }
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		"we":                    {[]metav1.ManagedFieldsEntry{entry("ours", "", `{"f:type":{}}`)}, true},
		"with labels of others": {[]metav1.ManagedFieldsEntry{entry("ours", "", `{"f:type":{}}`), entry("o", "", `{"f:metadata":{}}`), entry("o", "status", `{"f:status":{}}`)}, true},
		"with data of others":   {[]metav1.ManagedFieldsEntry{entry("ours", "", `{"f:type":{}}`), entry("o", "", `{"f:metadata":{},"f:data":{}}`)}, false},
		"unreadable":            {[]metav1.ManagedFieldsEntry{entry("ours", "", `{"f:type":{}}`), entry("o", "", `{`)}, false},
		"empty":                 {[]metav1.ManagedFieldsEntry{{Manager: "o"}}, false},
		"nobody says":           {nil, false},
	} {
		if got := IsMadeBy(&metav1.ObjectMeta{ManagedFields: tc.entries}, ours); got != tc.want {
			t.Errorf("%s: IsMadeBy: got %t, want %t", name, got, tc.want)
		}
	}
}

// TestInexpressible has what the API server says of a manifest with a port twice, and of one with a
// field besides that it does not know.
func TestInexpressible(t *testing.T) {
	t.Parallel()
	const prefix, twice = "failed to create typed patch object (ns/web; apps/v1, Kind=Deployment): ", `.spec.ports: duplicate entries for key [port=80]`
	for name, tc := range map[string]struct {
		text string
		want bool
	}{
		"twice":                 {prefix + twice, true},
		"twice, and undeclared": {prefix + "errors:\n  " + twice + "\n  .spec.nope: field not declared in schema", false},
		"undeclared":            {prefix + ".spec.nope: field not declared in schema", false},
		"something else":        {twice, false},
	} {
		err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: tc.text}}
		if got := IsInexpressible(fmt.Errorf("writing: %w", err)); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
