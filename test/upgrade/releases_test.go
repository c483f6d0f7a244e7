// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// etcdPrefix begins the keys of all objects.
	etcdPrefix = "/registry/"
	// servedFile lists what a release served: one version of a resource a line.
	servedFile = "served.txt"
)

// resource is a kind in one version.
type resource struct {
	schema.GroupVersionResource
	kind string
}

// String returns the line of servedFile.
func (r resource) String() string { return r.GroupVersion().String() + " " + r.Resource + " " + r.kind }

// storedObject is an object as a release has left it in etcd.
type storedObject struct {
	key   string
	value []byte
	// resource is what it was written as: it may be stored in another version.
	resource resource
	*unstructured.Unstructured
}

// releases returns the versions in releases.txt.
func releases(t *testing.T) []string {
	t.Helper()
	var versions []string
	for _, fields := range linesOf(t, "releases.txt") {
		versions = append(versions, fields[0])
	}
	if len(versions) == 0 {
		t.Fatal("releases.txt has no release")
	}
	return versions
}

// servedBy returns what a release served.
func servedBy(t *testing.T, release string) []resource {
	t.Helper()
	var all []resource
	for _, fields := range linesOf(t, filepath.Join("testdata", release, servedFile)) {
		version, err := schema.ParseGroupVersion(fields[0])
		if err != nil || len(fields) != 3 {
			t.Fatalf("%s of %s: %q is not 'group/version plural kind': %v", servedFile, release, fields, err)
		}
		all = append(all, resource{version.WithResource(fields[1]), fields[2]})
	}
	return all
}

// linesOf returns the words of the lines of a file, without comments.
func linesOf(t *testing.T, file string) [][]string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasPrefix(line, "#") {
			lines = append(lines, fields)
		}
	}
	return lines
}

// folderOf returns where the objects are that a release has stored of a resource. The
// path of each in it is the end of its key.
func folderOf(release string, r resource) string {
	return filepath.Join("testdata", release, r.Group, r.Version, r.Resource)
}

// prefixOf returns how the keys of a resource begin, whatever its version.
func prefixOf(r resource) string { return etcdPrefix + r.Group + "/" + r.Resource + "/" }

// objectsOf returns what a release has stored of a resource.
func objectsOf(t *testing.T, release string, r resource) []storedObject {
	t.Helper()
	var all []storedObject
	root := folderOf(release, r)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, strings.TrimSuffix(path, ".json"))
		if err != nil {
			return err
		}
		all = append(all, decode(t, r, prefixOf(r)+filepath.ToSlash(name), content))
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("reading what %s has stored: %v", release, err)
	}
	return all
}

// decode reads what is stored under a key.
func decode(t *testing.T, r resource, key string, value []byte) storedObject {
	t.Helper()
	object := storedObject{key: key, value: value, resource: r, Unstructured: &unstructured.Unstructured{}}
	if err := object.UnmarshalJSON(value); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return object
}

// servedIn returns the versions in which a definition is served.
func servedIn(definition *apiextensionsv1.CustomResourceDefinition) []resource {
	var all []resource
	for _, version := range definition.Spec.Versions {
		if version.Served {
			name := schema.GroupVersionResource{Group: definition.Spec.Group, Version: version.Name, Resource: definition.Spec.Names.Plural}
			all = append(all, resource{name, definition.Spec.Names.Kind})
		}
	}
	return all
}
