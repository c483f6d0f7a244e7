// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rendered is the least that an operator's base has to render.
const rendered = `apiVersion: v1
kind: Namespace
metadata:
  name: open-cluster-management
  labels:
    pod-security.kubernetes.io/enforce: restricted
---
apiVersion: apps/v1
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
func bundle(t *testing.T, manifests string, flags ...string) (map[string]string, error) {
	t.Helper()
	out := t.TempDir()
	args := []string{"-root", "../..", "-out", out, "-version", "1.2.3", "-date", "2026-01-02T03:04:05Z", "-image", "example.com:5000/i:1"}
	err := run(strings.NewReader(manifests), slices.Concat(args, flags, []string{"klusterlet"}))
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
	want := []string{
		"name: capstan-klusterlet.v1.2.3", "image: example.com:5000/i:1", "value: example.com:5000/i:1", `"kind": "Klusterlet"`,
		"createdAt: \"2026-01-02T03:04:05Z\"", "arch.amd64: supported", "arch.arm64: supported", "suggested-namespace: open-cluster-management",
	}
	wantParts(t, first[csvPath], want, "replaces:", "skipRange", "ImagePullSpec", "imagePullSpec")
}

const csvPath = "/klusterlet/manifests/capstan-klusterlet.clusterserviceversion.yaml"

// wantParts expects a ClusterServiceVersion with some parts and without others.
func wantParts(t *testing.T, csv string, want []string, unwanted ...string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(csv, part) {
			t.Errorf("the ClusterServiceVersion lacks %q", part)
		}
	}
	for _, part := range unwanted {
		if strings.Contains(csv, part) {
			t.Errorf("the ClusterServiceVersion has %q", part)
		}
	}
	if t.Failed() {
		t.Log(csv)
	}
}

func TestABundleSaysWhatItReplaces(t *testing.T) {
	const none = ""
	cases := map[string]struct{ reason, version, replaces, skipped string }{
		"NextPatch":   {"an upgrade may leave out what is between it and the first of its minor version", "1.2.3", "1.2.2", ">=1.2.0 <1.2.3"},
		"NextMinor":   {"the way to another minor version is by the version before", "1.3.0", "1.2.2", none},
		"FirstOfMany": {"nothing can be replaced by the first of a channel", "1.2.3", none, none},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := newRelease(tc.version, tc.replaces, "i:1", "", "2026-01-02T03:04:05Z")
			if err != nil {
				t.Fatal(err)
			}
			if got := r.skipped(); got != tc.skipped {
				t.Errorf("%s: got the range %q, want %q", tc.reason, got, tc.skipped)
			}
		})
	}
	files, err := bundle(t, rendered, "-replaces", "1.2.2")
	if err != nil {
		t.Fatal(err)
	}
	wantParts(t, files[csvPath], []string{"replaces: capstan-klusterlet.v1.2.2", "olm.skipRange: '>=1.2.0 <1.2.3'"})
}

func TestADigestTakesThePlaceOfTheTag(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	files, err := bundle(t, rendered, "-digest", digest)
	if err != nil {
		t.Fatal(err)
	}
	pinned := "example.com:5000/i@" + digest
	wantParts(t, files[csvPath], []string{"image: " + pinned, "value: " + pinned, "containerImage: " + pinned}, "i:1")
}

func TestWhatNoBundleCanHaveIsRefused(t *testing.T) {
	cases := map[string]struct {
		flags []string
		want  string
	}{
		"a version is a semantic one":      {[]string{"-version", "1.2"}, `"1.2" is no semantic version`},
		"a version has no leading v":       {[]string{"-replaces", "v1.2.2"}, `"v1.2.2" is no semantic version`},
		"a date is a time":                 {[]string{"-date", "yesterday"}, `-date "yesterday"`},
		"nobody guesses the date":          {[]string{"-date", ""}, "usage"},
		"a digest is that of an algorithm": {[]string{"-digest", "1234"}, `-digest "1234"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := bundle(t, rendered, tc.flags...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestNothingIsLeftOutOfABundleSilently(t *testing.T) {
	_, withoutNamespace, _ := strings.Cut(rendered, "---")
	cases := map[string]struct{ manifests, want string }{
		"a kind that nobody thought of is an error": {rendered + "---\nkind: Secret\n", `the kind "Secret"`},
		"a base without a Namespace is an error":    {withoutNamespace, "want a Namespace"},
		"an empty base is an error":                 {"", "want a Namespace"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := bundle(t, tc.manifests); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}
