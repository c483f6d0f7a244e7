// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

func TestPlaintext(t *testing.T) {
	for name, test := range map[string]struct {
		path     string
		operator policyv1alpha1.OverriderOperator
		value    string
		want     string // of data, as JSON, or an error
	}{
		"add a field":           {"/data/new", "add", `{"x":[1,"<&>"]}`, `{"a":{"b":[1,2]},"big":9007199254740993,"new":{"x":[1,"<&>"]},"x/y~z":"1"}`},
		"add over a field":      {"/data/a", "add", "null-like", "error: the value is not JSON"},
		"add, insert":           {"/data/a/b/0", "add", "0", `{"a":{"b":[0,1,2]},"big":9007199254740993,"x/y~z":"1"}`},
		"add, append":           {"/data/a/b/-", "add", "3", `{"a":{"b":[1,2,3]},"big":9007199254740993,"x/y~z":"1"}`},
		"add at the end":        {"/data/a/b/2", "add", "3", `{"a":{"b":[1,2,3]},"big":9007199254740993,"x/y~z":"1"}`},
		"add beyond the end":    {"/data/a/b/3", "add", "3", "error: add /data/a/b/3: "},
		"add below nothing":     {"/data/none/x", "add", "3", "error: add /data/none/x: there is nothing at this path"},
		"add below a string":    {"/data/x~1y~0z/x", "add", "3", "error: add /data/x~1y~0z/x: there is nothing at this path"},
		"add without a value":   {"/data/a", "add", "", "error: add /data/a: value is missing"},
		"replace":               {"/data/x~1y~0z", "replace", `"2"`, `{"a":{"b":[1,2]},"big":9007199254740993,"x/y~z":"2"}`},
		"replace in a list":     {"/data/a/b/1", "replace", "7", `{"a":{"b":[1,7]},"big":9007199254740993,"x/y~z":"1"}`},
		"replace nothing":       {"/data/none", "replace", "7", "error: replace /data/none: there is nothing at this path"},
		"replace without value": {"/data/a", "replace", "", "error: replace /data/a: value is missing"},
		"remove":                {"/data/a", "remove", "", `{"big":9007199254740993,"x/y~z":"1"}`},
		"remove from a list":    {"/data/a/b/0", "remove", "1", `{"a":{"b":[2]},"big":9007199254740993,"x/y~z":"1"}`},
		"remove nothing":        {"/data/none", "remove", "", "error: remove /data/none: "},
		"no path":               {"", "replace", "{}", `error: replace "": a path names a field, such as /spec/replicas`},
		"no pointer":            {"data/a", "remove", "", `error: remove "data/a": it is not a JSON pointer`},
		"no operator":           {"/data/a", "", "1", `error: unknown operator ""`},
		"copy":                  {"/data/a", "copy", "1", `error: unknown operator "copy"`},
		"another version":       {"/apiVersion", "replace", `"v2"`, `{"a":{"b":[1,2]},"big":9007199254740993,"x/y~z":"1"}`},
		"another group":         {"/apiVersion", "replace", `"apps/v1"`, `error: the group of apiVersion would change from "" to "apps"`},
		"no version":            {"/apiVersion", "remove", "", "error: apiVersion would have no version"},
		"another kind":          {"/kind", "replace", `"Secret"`, `error: kind would change from "ConfigMap" to "Secret"`},
		"no kind":               {"/kind", "remove", "", `error: kind would change from "ConfigMap" to ""`},
		"another name":          {"/metadata/name", "replace", `"db"`, `error: metadata.name would change from "web" to "db"`},
		"another namespace":     {"/metadata/namespace", "replace", `"kube-system"`, `error: metadata.namespace would change from "shop" to "kube-system"`},
		"no namespace":          {"/metadata/namespace", "remove", "", `error: metadata.namespace would change from "shop" to ""`},
		"no metadata":           {"/metadata", "remove", "", `error: metadata.namespace would change from "shop" to ""`},
		"unknown metadata":      {"/metadata/x", "add", `"y"`, `error: metadata would not be that of an object: strict decoding error: unknown field "x"`},
		"metadata of a case":    {"/metadata/Labels", "add", `{}`, `error: metadata would not be that of an object: strict decoding error: unknown field "Labels"`},
		"unknown in an owner":   {"/metadata/ownerReferences", "add", `[{"x":1}]`, `error: metadata would not be that of an object: strict decoding error: unknown field "ownerReferences[0].x"`},
		"metadata of a type":    {"/metadata/annotations", "add", `{"a":1}`, `error: metadata would not be that of an object: `},
		"other metadata":        {"/metadata", "replace", `[1]`, `error: metadata.namespace would change from "shop" to ""`},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"web"},
				"data":{"a":{"b":[1,2]},"x/y~z":"1","big":9007199254740993}}`)); err != nil {
				t.Fatal(err)
			}
			changed, err := overridden(t, object, plain(policyv1alpha1.PlaintextOverrider{Path: test.path, Operator: test.operator, Value: text(test.value)}))
			if want, is := strings.CutPrefix(test.want, "error: "); is {
				if err == nil || !strings.Contains(err.Error(), ": "+want) {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := &unstructured.Unstructured{}
			if err := want.UnmarshalJSON([]byte(`{"kind":"ConfigMap","apiVersion":"v1","data":` + test.want + `}`)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Object["data"], changed.Object["data"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestField(t *testing.T) {
	type operations = []policyv1alpha1.JSONPatchOperation
	change := operations{
		{SubPath: "/db/host", Operator: "replace", Value: text(`"a<b"`)},
		{SubPath: "/db/ports/-", Operator: "add", Value: text("3")},
		{SubPath: "/old", Operator: "remove"},
	}
	for name, test := range map[string]struct {
		before     string
		json, yaml operations
		want       string
	}{
		"json":                {`{"old": 1, "db": {"ports": [1], "host": "x"}, "n": 12345678901234567890}`, change, nil, `{"db":{"ports":[1,3],"host":"a<b"},"n":12345678901234567890}`},
		"yaml":                {"# a comment\nold: 1\ndb:\n  ports: [1]\n  host: x\n", nil, change, "db:\n  host: a<b\n  ports:\n  - 1\n  - 3\n"},
		"json as yaml":        {`{"old": 1, "db": {"ports": [], "host": ""}}`, nil, change, "db:\n  host: a<b\n  ports:\n  - 3\n"},
		"a list":              {`[1,2]`, operations{{SubPath: "/0", Operator: "remove"}}, nil, `[2]`},
		"yaml, one document":  {"---\na: 1\n", nil, operations{{SubPath: "/a", Operator: "replace", Value: text("2")}}, "a: 2\n"},
		"nothing to change":   {"not even JSON", nil, nil, "not even JSON"},
		"both":                {"{}", change, change, "error: use json or yaml, not both"},
		"no json":             {"old: 1", change, nil, "error: at path /data/settings: the string is not JSON"},
		"json is empty":       {"", operations{{SubPath: "/a", Operator: "add", Value: text("1")}}, nil, "error: at path /data/settings: the string is not JSON"},
		"json is null":        {"null", operations{{SubPath: "/a", Operator: "add", Value: text("1")}}, nil, "error: at path /data/settings: json[0]: add /a: "},
		"json is a string":    {`"x"`, operations{{SubPath: "/a", Operator: "add", Value: text("1")}}, nil, "error: at path /data/settings: json[0]: add /a: "},
		"yaml is empty":       {"", nil, operations{{SubPath: "/a", Operator: "add", Value: text("1")}}, "error: at path /data/settings: yaml[0]: add /a: "},
		"no yaml":             {"a: [1", nil, change, "error: at path /data/settings: the string is not YAML: "},
		"yaml, keys twice":    {"a: 1\na: 2\n", nil, change, "error: at path /data/settings: the string is not YAML: "},
		"yaml, two documents": {"a: 1\n---\nb: 2\n", nil, change, "error: at path /data/settings: the string has 2 YAML documents"},
		"second one fails":    {`{"a":1}`, operations{{SubPath: "/a", Operator: "remove"}, {SubPath: "/a", Operator: "remove"}}, nil, "error: at path /data/settings: json[1]: remove /a: "},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": "web"},
				"data": map[string]any{"settings": test.before},
			}}
			changed, err := overridden(t, object, policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: "/data/settings", JSON: test.json, YAML: test.yaml}}})
			if want, is := strings.CutPrefix(test.want, "error: "); is {
				if err == nil || !strings.Contains(err.Error(), "fieldOverrider[0]: "+want) {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, at(t, changed, "data", "settings")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for path, want := range map[string]string{
		"/data/none": "there is nothing at path /data/none", "/spec/replicas": "at path /spec/replicas is not a string", "/spec/": "there is nothing at path /spec/",
	} {
		_, err := overridden(t, web(), policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{{FieldPath: path, JSON: change}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
