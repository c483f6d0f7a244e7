// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// copied writes the committed bundle of an operator as that of another version.
func copied(t *testing.T, operator, number, replaces string) string {
	t.Helper()
	source, target := filepath.Join("..", "..", "bundle", operator), t.TempDir()
	if err := os.CopyFS(target, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(target, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	content, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(filepath.Base(paths[0]), ".clusterserviceversion.yaml")
	text := strings.NewReplacer(name+".v0.1.0", name+".v"+number, "  version: 0.1.0\n", "  version: "+number+"\n").Replace(string(content))
	if replaces != "" {
		text += "  replaces: " + name + ".v" + replaces + "\n"
	}
	if err := os.WriteFile(paths[0], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return target
}

// catalogs runs the command and returns the files that it wrote.
func catalogs(t *testing.T, args ...string) (map[string]string, error) {
	t.Helper()
	out := t.TempDir()
	err := run(append([]string{"-out", out, "-registry", "example.com"}, args...))
	files := map[string]string{}
	for _, name := range []string{"capstan-hub", "capstan-klusterlet"} {
		content, readErr := os.ReadFile(filepath.Join(out, name, "catalog.yaml"))
		if readErr == nil {
			files[name] = string(content)
		}
	}
	return files, err
}

func TestTheOrderOfTheBundlesIsNoMatter(t *testing.T) {
	hub, first := copied(t, "clustermanager", "0.1.0", ""), copied(t, "klusterlet", "0.1.0", "")
	args := []string{hub, first, copied(t, "klusterlet", "0.10.0", "0.2.0"), copied(t, "klusterlet", "0.2.0", "0.1.0") + "=example.com/own@sha256:1"}
	forwards, err := catalogs(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(args)
	backwards, err := catalogs(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(forwards, backwards); diff != "" {
		t.Errorf("the other order makes another catalog:\n%s", diff)
	}
	if len(forwards) != 2 {
		t.Errorf("got %d catalogs, want one for each package", len(forwards))
	}
	for _, part := range []string{
		"schema: olm.package", "defaultChannel: stable", "image: example.com/capstan-klusterlet-bundle:0.1.0", "image: example.com/own@sha256:1",
		"entries:\n- name: capstan-klusterlet.v0.1.0\n- name: capstan-klusterlet.v0.2.0\n  replaces: capstan-klusterlet.v0.1.0\n" +
			"- name: capstan-klusterlet.v0.10.0\n  replaces: capstan-klusterlet.v0.2.0\n",
		"    group: operator.open-cluster-management.io\n    kind: Klusterlet\n    version: v1\n",
	} {
		if !strings.Contains(forwards["capstan-klusterlet"], part) {
			t.Errorf("the catalog lacks %q:\n%s", part, forwards["capstan-klusterlet"])
		}
	}
}

func TestAChannelIsAChain(t *testing.T) {
	first := copied(t, "klusterlet", "0.1.0", "")
	for name, tc := range map[string]struct {
		bundles []string
		want    string
	}{
		"a gap in the middle":                          {[]string{first, copied(t, "klusterlet", "0.3.0", "0.2.0")}, `replaces "capstan-klusterlet.v0.2.0"`},
		"a version that replaces nothing is out of it": {[]string{first, copied(t, "klusterlet", "0.2.0", "")}, `is "capstan-klusterlet.v0.1.0"`},
		"a version is there once":                      {[]string{first, first}, "there twice"},
		"a bundle is a directory":                      {[]string{t.TempDir()}, "annotations.yaml"},
		"there is a bundle":                            {nil, "usage"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := catalogs(t, tc.bundles...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestTheOldestBundleMayReplaceOneThatIsNotThere(t *testing.T) {
	files, err := catalogs(t, copied(t, "klusterlet", "0.3.0", "0.2.0"), copied(t, "klusterlet", "0.2.0", "0.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	want := "entries:\n- name: capstan-klusterlet.v0.2.0\n  replaces: capstan-klusterlet.v0.1.0\n- name: capstan-klusterlet.v0.3.0\n  replaces: capstan-klusterlet.v0.2.0\n"
	if !strings.Contains(files["capstan-klusterlet"], want) {
		t.Errorf("the catalog lacks %q:\n%s", want, files["capstan-klusterlet"])
	}
}
