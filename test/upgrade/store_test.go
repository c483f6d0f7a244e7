// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/test/upgrade/released"
)

var store = flag.String("store", "", "the release of releases.txt whose objects are written to testdata first")

// storeObjects lets an API server with the definitions of a release store the inputs,
// and writes to testdata what etcd has then. The inputs set all fields of the release.
func storeObjects(t *testing.T, release string) {
	t.Helper()
	if !slices.Contains(released.ReleaseVersions(t), release) {
		t.Fatalf("release %s is not in releases.txt: add it with its commit", release)
	}
	definitions := filepath.Join("..", "..", "bin", "released", release, "config", "crd")
	if _, err := os.Stat(definitions); err != nil {
		t.Fatalf("the definitions of %s are missing; 'make released' lays them out: %v", release, err)
	}
	environment, config := env.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{definitions} })
	s := newServer(t, environment, config)
	if err := os.RemoveAll(filepath.Join("testdata", release)); err != nil {
		t.Fatal(err)
	}
	var served []string
	for _, definition := range environment.CRDs {
		for _, r := range released.ServedIn(definition) {
			served = append(served, r.String())
			inputs := inputsOf(t, r)
			for _, input := range inputs {
				s.store(t, release, r, input)
			}
			s.haveAllFields(t, r, inputs)
		}
	}
	slices.Sort(served)
	write(t, filepath.Join("testdata", release, released.ServedFile), []byte(strings.Join(served, "\n")+"\n"))
}

// inputsOf returns the manifests of a resource in its version.
func inputsOf(t *testing.T, r released.Resource) []*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "inputs", strings.ToLower(r.Kind)+".yaml"))
	if err != nil {
		t.Fatalf("%s has no input: %v", r, err)
	}
	defer func() { _ = file.Close() }()
	var all []*unstructured.Unstructured
	for documents := yaml.NewYAMLOrJSONDecoder(file, bytes.MinRead); ; {
		input := &unstructured.Unstructured{}
		if err := documents.Decode(input); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", file.Name(), err)
		}
		if input.GetAPIVersion() == r.GroupVersion().String() {
			all = append(all, input)
		}
	}
}

// store creates an object by the API server, with its status, and keeps what is in etcd.
func (s server) store(t *testing.T, release string, r released.Resource, input *unstructured.Unstructured) {
	t.Helper()
	s.needsNamespace(t, input.GetNamespace())
	objects, name := s.client(r, input.GetNamespace()), fmt.Sprintf("%s %s", r.Kind, input.GetName())
	created, err := objects.Create(t.Context(), input, metav1.CreateOptions{FieldManager: "kubectl-create", FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Errorf("create %s: %v", name, err)
		return
	}
	if status, ok := input.Object["status"]; ok && s.hasStatus(r) {
		created.Object["status"] = status
		if _, err := objects.UpdateStatus(t.Context(), created, metav1.UpdateOptions{FieldManager: "capstan", FieldValidation: metav1.FieldValidationStrict}); err != nil {
			t.Errorf("write the status of %s: %v", name, err)
			return
		}
	}
	path := filepath.Join(input.GetNamespace(), input.GetName())
	key := released.KeyPrefix(r) + filepath.ToSlash(path)
	value, err := env.ReadStore(t.Context(), s.environment, key)
	if err != nil {
		t.Fatal(err)
	}
	expect.TreeKept(t, name+" as it is stored", lasting(input.Object), released.DecodeObject(t, r, key, value).Object)
	write(t, filepath.Join(released.FolderOf(release, r), path+".json"), indented(t, value))
}

// haveAllFields fails the test if the inputs of a resource leave a field out.
func (s server) haveAllFields(t *testing.T, r released.Resource, inputs []*unstructured.Unstructured) {
	t.Helper()
	var values []any
	for _, input := range inputs {
		values = append(values, input.Object)
	}
	for _, version := range s.definition(r).Spec.Versions {
		if version.Name == r.Version {
			for _, path := range unset("", version.Schema.OpenAPIV3Schema, values) {
				t.Errorf("no input of %s sets %s: add it to testdata/inputs/%s.yaml", r, path, strings.ToLower(r.Kind))
			}
		}
	}
}

func indented(t *testing.T, value []byte) []byte {
	t.Helper()
	var text bytes.Buffer
	if err := json.Indent(&text, value, "", "  "); err != nil {
		t.Fatal(err)
	}
	text.WriteByte('\n')
	return text.Bytes()
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
