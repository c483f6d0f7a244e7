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
)

// rendered is the least that an operator's base has to render.
const rendered = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: klusterlet
spec:
  selector: {}
  template:
    spec:
      serviceAccountName: klusterlet
      containers:
      - name: klusterlet
        env:
        - name: AGENT_IMAGE
          value: old
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: klusterlets.operator.open-cluster-management.io
spec:
  group: operator.open-cluster-management.io
  names:
    kind: Klusterlet
    plural: klusterlets
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: klusterlet
rules:
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
`

// bundle runs the command and returns the files that it wrote.
func bundle(t *testing.T, manifests string) (map[string]string, error) {
	t.Helper()
	out := t.TempDir()
	err := run(strings.NewReader(manifests), []string{"-root", "../..", "-out", out, "-version", "1.2.3", "-image", "example.com/i:1", "klusterlet"})
	files := map[string]string{}
	if walkErr := filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, out)] = string(content)
		return err
	}); walkErr != nil {
		t.Fatal(walkErr)
	}
	return files, err
}

func TestTheSameManifestsMakeTheSameBundle(t *testing.T) {
	first, err := bundle(t, rendered)
	if err != nil {
		t.Fatal(err)
	}
	second, err := bundle(t, rendered)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the second bundle differs:\n%s", diff)
	}
	csv := first["/klusterlet/manifests/klusterlet.clusterserviceversion.yaml"]
	for _, part := range []string{"name: klusterlet.v1.2.3", "image: example.com/i:1", "value: example.com/i:1", `"kind": "Klusterlet"`} {
		if !strings.Contains(csv, part) {
			t.Errorf("the ClusterServiceVersion lacks %q:\n%s", part, csv)
		}
	}
}

func TestNothingIsLeftOutOfABundleSilently(t *testing.T) {
	_, withoutFirst, _ := strings.Cut(rendered, "---")
	cases := map[string]struct{ manifests, want string }{
		"a kind that nobody thought of is an error": {rendered + "---\nkind: Secret\n", `the kind "Secret"`},
		"a base without a Deployment is an error":   {withoutFirst, "want a Deployment"},
		"an empty base is an error":                 {"", "want a Deployment"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := bundle(t, tc.manifests); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}
