// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	core "github.com/capstan-io/capstan/internal/interpret"
)

// ric is a customization of Workloads, without what it customizes.
const ric = "apiVersion: config.karmada.io/v1alpha1\nkind: ResourceInterpreterCustomization\nmetadata: {name: %s}\nspec: {target: {apiVersion: example.com/v1, kind: Workload}, customizations: {%s}}\n"

// failed reports whether an error is the one that is wanted, which is none if that is "".
func failed(t *testing.T, name string, err error, want string) bool {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: the error is %v, not %q", name, err, want)
	}
	return err != nil
}

func TestTheCustomizationsOfAFile(t *testing.T) {
	t.Parallel()
	a, b := fmt.Sprintf(ric, "a", ""), fmt.Sprintf(ric, "b", "")
	indented := func(text string) string {
		return "- " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
	}
	for name, c := range map[string]struct {
		file  string
		want  []string
		error string
	}{
		"one":                          {file: a, want: []string{"a"}},
		"several, in their order":      {file: b + "---\n" + a, want: []string{"b", "a"}},
		"empty documents between them": {file: "---\n# nothing\n---\n" + a + "---\n---\n" + b + "---\n", want: []string{"a", "b"}},
		"JSON":                         {file: `{"apiVersion":"config.karmada.io/v1alpha1","kind":"ResourceInterpreterCustomization","metadata":{"name":"a"}}`, want: []string{"a"}},
		"a list, as kubectl prints it": {file: "apiVersion: v1\nkind: List\nitems:\n" + indented(a) + indented(b) + "---\n" + a, want: []string{"a", "b", "a"}},
		"a list of the kind":           {file: "kind: ResourceInterpreterCustomizationList\nitems:\n" + indented(a), want: []string{"a"}},
		"an empty list":                {file: "kind: List\nitems: []\n", error: "the files of -f contain no ResourceInterpreterCustomization"},
		"nothing":                      {file: "", error: "contain no ResourceInterpreterCustomization"},
		"comments":                     {file: "# a\n# b", error: "contain no ResourceInterpreterCustomization"},
		"another kind":                 {file: a + "---\napiVersion: v1\nkind: ConfigMap\n", error: "the standard input contains something other"},
		"another version of it":        {file: strings.Replace(a, "v1alpha1", "v9", 1), error: "contains something other"},
		"null in a list":               {file: "kind: List\nitems: [null]\n", error: "contains something other"},
		"a field that there is not":    {file: strings.Replace(a, "target", "targets", 1), error: `unknown field "targets"`},
		"no YAML":                      {file: "a: [", error: "the standard input: "},
		"a text":                       {file: "text", error: "contains something other"},
		"more than an object can have": {file: strings.Repeat("#", 16<<20+1), error: "the standard input has more than 16 MiB"},
	} {
		all, err := (&interpretOptions{files: []string{"-"}}).customizations(strings.NewReader(c.file))
		if failed(t, name, err, c.error) {
			continue
		}
		var got []string
		for i := range all {
			got = append(got, all[i].Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTheObjectOfAFile is one, and its numbers are those of the API machinery: scripts tell
// whole numbers from others.
func TestTheObjectOfAFile(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	for name, c := range map[string]struct {
		file  string
		want  m
		error string
	}{
		"numbers": {
			file: "apiVersion: v1\nkind: A\nspec: {whole: 3, large: 9007199254740993, part: 0.5}",
			want: m{"apiVersion": "v1", "kind": "A", "spec": m{"whole": int64(3), "large": int64(9007199254740993), "part": 0.5}},
		},
		"two":             {file: "apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B\n", error: "the standard input has 2 objects"},
		"none":            {file: "---\n", error: "the standard input has 0 objects"},
		"a list of items": {file: "- apiVersion: v1\n  kind: A\n", error: "the standard input is not an object"},
		"a text":          {file: "text", error: "is not an object"},
		"no kind":         {file: "apiVersion: v1\n", error: "has no apiVersion or no kind"},
		"no apiVersion":   {file: "kind: A\n", error: "has no apiVersion or no kind"},
		"a kind that is no text": {
			file: "apiVersion: v1\nkind: 5\n", error: "has no apiVersion or no kind",
		},
	} {
		got, err := objectOf(c.file)
		if failed(t, name, err, c.error) {
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got, err := readObject("", strings.NewReader("text")); got != nil || err != nil {
		t.Errorf("of no file there is %v (%v)", got, err)
	}
}

func objectOf(file string) (map[string]any, error) {
	o, err := readObject(standardInput, strings.NewReader(file))
	if err != nil {
		return nil, err
	}
	return o.Object, nil
}

func TestWhatClustersReportInAFile(t *testing.T) {
	t.Parallel()
	a := core.ClusterItem{Cluster: "a", Status: map[string]any{"ready": int64(1)}, Applied: true, Message: "well", Health: "Healthy"}
	const full = "{clusterName: a, status: {ready: 1}, applied: true, appliedMessage: well, health: Healthy}"
	for name, c := range map[string]struct {
		file  string
		want  []core.ClusterItem
		error string
	}{
		"one":                              {file: full, want: []core.ClusterItem{a}},
		"one after the other":              {file: full + "\n---\n{clusterName: b}\n", want: []core.ClusterItem{a, {Cluster: "b"}}},
		"a list":                           {file: "[{clusterName: b}, " + full + "]", want: []core.ClusterItem{{Cluster: "b"}, a}},
		"an empty list":                    {file: "[]", want: []core.ClusterItem{}},
		"an empty file":                    {file: "", want: []core.ClusterItem{}},
		"a binding":                        {file: "kind: ResourceBinding\nstatus: {aggregatedStatus: [" + full + "]}", want: []core.ClusterItem{a}},
		"a binding of a cluster's objects": {file: "kind: ClusterResourceBinding\nstatus: {aggregatedStatus: [" + full + "]}", want: []core.ClusterItem{a}},
		"a binding that has no report yet": {file: "kind: ResourceBinding\nstatus: {}", want: []core.ClusterItem{}},
		"another kind":                     {file: "kind: Deployment\nstatus: {aggregatedStatus: [" + full + "]}", error: "an item has no clusterName"},
		"no cluster":                       {file: "[{applied: true}]", error: "the standard input: an item has no clusterName"},
		"null":                             {file: "[null]", error: "an item has no clusterName"},
		"a status that is none":            {file: "[{clusterName: a, status: text}]", error: "the standard input: "},
		"a text":                           {file: "text", error: "the standard input: "},
	} {
		got, err := readItems(standardInput, strings.NewReader(c.file))
		if failed(t, name, err, c.error) {
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got, err := readItems("", strings.NewReader(full)); got != nil || err != nil {
		t.Errorf("of no file there is %v (%v)", got, err)
	}
}
