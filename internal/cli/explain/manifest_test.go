// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const several = `# a comment alone
---
apiVersion: v1
kind: List
items:
- apiVersion: cluster.open-cluster-management.io/v1beta1
  kind: Placement
  metadata: {name: one}
  spec: {}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: apps}
spec: {clusterSet: apps}
---
apiVersion: example.com/v1
kind: Database
metadata: {name: orders}
`

func TestReadManifest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "two.yaml")
	two := "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {name: two, namespace: team-b}\nspec: {}\n"
	if err := os.WriteFile(file, []byte(two), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := readManifest([]string{file, standardInput}, strings.NewReader(several), "team-a")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, o := range m.others {
		got["others"] = append(got["others"], o.GetKind())
	}
	for _, p := range m.placements {
		got["placements"] = append(got["placements"], p.GetNamespace()+"/"+p.GetName())
	}
	for i := range m.bindings {
		got["bindings"] = append(got["bindings"], m.bindings[i].Namespace+"/"+m.bindings[i].Name)
	}
	want := map[string][]string{"placements": {"team-b/two", "team-a/one"}, "bindings": {"team-a/apps"}, "others": {"ConfigMap", "Database"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMistakesInFilesNameTheirPlace(t *testing.T) {
	head := "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\n"
	cases := map[string]struct{ text, want string }{
		"no YAML":             {text: "a: b: c", want: "document 1"},
		"a field":             {text: head + "metadata: {name: a}\nspec: {predicate: []}\n", want: "spec.predicate"},
		"a type":              {text: head + "metadata: {name: a}\nspec: {numberOfClusters: two}\n", want: "numberOfClusters"},
		"a field twice":       {text: head + "metadata: {name: a}\nspec: {}\nspec: {}\n", want: "spec"},
		"no name":             {text: head + "spec: {}\n", want: "metadata.name"},
		"the second document": {text: head + "metadata: {name: a}\nspec: {}\n---\n" + head + "metadata: {name: b}\nspec: {x: 1}\n", want: "document 2"},
		"nothing":             {text: "", want: "nothing to plan"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := readManifest([]string{standardInput}, strings.NewReader(tc.text), "team-a")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestFolders(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"b.yaml", "a.json", "c.yml", "README.md"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "d.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := expand([]string{standardInput, folder, "not-there.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{standardInput, filepath.Join(folder, "a.json"), filepath.Join(folder, "b.yaml"), filepath.Join(folder, "c.yml"), "not-there.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
