// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/config"
)

// base is what kustomize renders of the operator of a member.
func base(t *testing.T) string {
	t.Helper()
	objects, err := config.Operator(config.KlusterletOperator)
	if err != nil {
		t.Fatal(err)
	}
	var documents []string
	for _, o := range objects {
		content, err := sigsyaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(content))
	}
	return strings.Join(documents, "---\n")
}

// generate runs the command and returns the files that it wrote.
func generate(t *testing.T, manifests string, args ...string) (map[string]string, error) {
	t.Helper()
	out := t.TempDir()
	err := run(strings.NewReader(manifests), append([]string{"-out", out}, args...))
	files := map[string]string{}
	if walkErr := filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, out+"/")] = string(content)
		return err
	}); walkErr != nil {
		t.Fatal(walkErr)
	}
	return files, err
}

func TestTheSameManifestsMakeTheSameChart(t *testing.T) {
	var made [2]map[string]string
	for i := range made {
		var err error
		if made[i], err = generate(t, base(t), "-version", "1.2.3", "-registry", "registry.example.com", "klusterlet"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(made[0], made[1]); diff != "" {
		t.Errorf("the second chart differs:\n%s", diff)
	}
	for file, part := range map[string]string{"Chart.yaml": `appVersion: "1.2.3"`, "values.yaml": "registry: registry.example.com"} {
		if text := made[0]["klusterlet/"+file]; !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", file, part, text)
		}
	}
}

func TestNothingIsLeftOutOfAChartSilently(t *testing.T) {
	for name, tc := range map[string]struct{ manifests, want string }{
		"a kind that nobody thought of is an error":       {base(t) + "---\nkind: Secret\n", `the kind "Secret"`},
		"a base without a definition is an error":         {"kind: Namespace\n", "no CustomResourceDefinition"},
		"what Helm would take for a template is an error": {base(t) + "---\nkind: Role\nmetadata: {name: 'a{{b'}\n", "{{ in it"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := generate(t, tc.manifests, "-version", "1.2.3", "klusterlet"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}
