// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package released reads what releases have served and stored, for tests of what is made of it. Paths are relative to the
// folder of the tests.
package released

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
	// EtcdPrefix begins the keys of all objects.
	EtcdPrefix = "/registry/"
	// ServedFile lists what a release served: one version of a resource a line.
	ServedFile = "served.txt"
)

// Resource is a kind in one version.
type Resource struct {
	schema.GroupVersionResource
	Kind string
}

// String returns the line of ServedFile.
func (r Resource) String() string { return r.GroupVersion().String() + " " + r.Resource + " " + r.Kind }

// StoredObject is an object as a release has left it in etcd.
type StoredObject struct {
	Key   string
	Value []byte
	// Resource is what it was written as: it may be stored in another version.
	Resource Resource
	*unstructured.Unstructured
}

// ReleaseVersions returns the versions in releases.txt.
func ReleaseVersions(t testing.TB) []string {
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

// ServedBy returns what a release served.
func ServedBy(t testing.TB, release string) []Resource {
	t.Helper()
	var all []Resource
	for _, fields := range linesOf(t, filepath.Join("testdata", release, ServedFile)) {
		version, err := schema.ParseGroupVersion(fields[0])
		if err != nil || len(fields) != 3 {
			t.Fatalf("%s of %s: %q is not 'group/version plural kind': %v", ServedFile, release, fields, err)
		}
		all = append(all, Resource{version.WithResource(fields[1]), fields[2]})
	}
	return all
}

// linesOf returns the words of the lines of a file, without comments.
func linesOf(t testing.TB, file string) [][]string {
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

// FolderOf returns where the objects are that a release has stored of a resource. The
// path of each in it is the end of its key.
func FolderOf(release string, r Resource) string {
	return filepath.Join("testdata", release, r.Group, r.Version, r.Resource)
}

// KeyPrefix returns how the keys of a resource begin, whatever its version.
func KeyPrefix(r Resource) string { return EtcdPrefix + r.Group + "/" + r.Resource + "/" }

// ObjectsOf returns what a release has stored of a resource.
func ObjectsOf(t testing.TB, release string, r Resource) []StoredObject {
	t.Helper()
	var all []StoredObject
	root := FolderOf(release, r)
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
		all = append(all, DecodeObject(t, r, KeyPrefix(r)+filepath.ToSlash(name), content))
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("reading what %s has stored: %v", release, err)
	}
	return all
}

// DecodeObject reads what is stored under a key.
func DecodeObject(t testing.TB, r Resource, key string, value []byte) StoredObject {
	t.Helper()
	object := StoredObject{Key: key, Value: value, Resource: r, Unstructured: &unstructured.Unstructured{}}
	if err := object.UnmarshalJSON(value); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return object
}

// ServedIn returns the versions in which a definition is served.
func ServedIn(definition *apiextensionsv1.CustomResourceDefinition) []Resource {
	var all []Resource
	for _, version := range definition.Spec.Versions {
		if version.Served {
			name := schema.GroupVersionResource{Group: definition.Spec.Group, Version: version.Name, Resource: definition.Spec.Names.Plural}
			all = append(all, Resource{name, definition.Spec.Names.Kind})
		}
	}
	return all
}
