// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

// standardInput is the name of a file that is the standard input.
const standardInput = "-"

// manifest is what files declare.
type manifest struct {
	// placements are as they are written: a field that is missing is not one that
	// is 0.
	placements []*unstructured.Unstructured
	bindings   []clusterv1beta2.ManagedClusterSetBinding
	sets       []clusterv1beta2.ManagedClusterSet
	// others are all other objects.
	others []*unstructured.Unstructured
}

// readManifest reads files with several documents each. Objects without a
// namespace get the given one.
func readManifest(files []string, in io.Reader, namespace string) (*manifest, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1beta1.AddToScheme(scheme), clusterv1beta2.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	m := &manifest{}
	r := manifestReader{manifest: m, namespace: namespace, decoder: json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})}
	all, err := expand(files)
	if err != nil {
		return nil, err
	}
	for _, file := range all {
		content, err := readInput(file, in)
		if err != nil {
			return nil, err
		}
		if err := r.readDocuments(file, content); err != nil {
			return nil, err
		}
	}
	if len(m.placements)+len(m.others) == 0 {
		return nil, nothingToPlanError()
	}
	return m, nil
}

// nothingToPlanError is the error for files that nothing can be said of.
func nothingToPlanError() error {
	return exit.Next(errors.New("the files of -f contain nothing to plan"), "Name files with Placements, policies, or objects that policies send to clusters.")
}

// expand replaces folders with the files in them that kubectl would read.
func expand(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		info, err := os.Stat(name)
		if name == standardInput || err != nil || !info.IsDir() { // reading it tells what is wrong
			files = append(files, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, exit.Next(err, "Name files and folders that can be read, or - for the standard input.")
		}
		for _, entry := range entries {
			if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
				files = append(files, filepath.Join(name, entry.Name()))
			}
		}
	}
	return files, nil
}

func readInput(file string, in io.Reader) ([]byte, error) {
	if file == standardInput {
		content, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read the standard input: %w", err)
		}
		return content, nil
	}
	content, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return nil, exit.Next(err, "Name files that can be read, or - for the standard input.")
	}
	return content, nil
}

// manifestReader adds documents to a manifest.
type manifestReader struct {
	*manifest

	namespace string
	decoder   runtime.Decoder
}

func (r manifestReader) readDocuments(name string, content []byte) error {
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var text []byte
		if err == nil {
			text, err = sigsyaml.YAMLToJSONStrict(document)
		}
		if err == nil && string(text) != "null" {
			err = r.addObject(text)
		}
		if err != nil {
			return fmt.Errorf("%s, document %d: %w", name, n, err)
		}
	}
}

// addObject adds an object.
func (r manifestReader) addObject(text []byte) error {
	object, _, err := r.decoder.Decode(text, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return r.addUntyped(text)
	case err != nil:
		return err
	}
	switch object := object.(type) {
	case *clusterv1beta1.Placement:
		written := &unstructured.Unstructured{}
		if err := written.UnmarshalJSON(text); err != nil {
			return err
		}
		if written.GetNamespace() == "" {
			written.SetNamespace(r.namespace)
		}
		if object.Name == "" {
			return errors.New("metadata.name: Required value: a Placement is planned by its name")
		}
		r.placements = append(r.placements, written)
	case *clusterv1beta2.ManagedClusterSetBinding:
		if object.Namespace == "" {
			object.Namespace = r.namespace
		}
		r.bindings = append(r.bindings, *object)
	case *clusterv1beta2.ManagedClusterSet:
		r.sets = append(r.sets, *object)
	case *corev1.List:
		for i := range object.Items {
			if err := r.addObject(object.Items[i].Raw); err != nil {
				return err
			}
		}
	default:
		return r.addUntyped(text)
	}
	return nil
}

func (r manifestReader) addUntyped(text []byte) error {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return err
	}
	r.others = append(r.others, object)
	return nil
}
