// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// The operators that there are manifests of, by their folders in config/operator.
const (
	ClusterManagerOperator = "clustermanager"
	KlusterletOperator     = "klusterlet"
	ControlPlaneOperator   = "controlplane"
)

// kustomization is the part of kustomize's language that config/operator uses.
// Another part in it is an error: what is rendered here and what kustomize
// renders have to be the same.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Labels     []struct {
		Pairs map[string]string `json:"pairs"`
	} `json:"labels"`
}

// Operator returns the objects that install an operator, in the order in which
// to apply them, each a new copy: what `kustomize build config/operator/<name>`
// prints.
func Operator(name string) ([]*unstructured.Unstructured, error) {
	directory := path.Join("operator", name)
	content, err := manifests.ReadFile(path.Join(directory, "kustomization.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no manifests of an operator %q are embedded; see config/operator", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read embedded manifests: %w", err)
	}
	k := kustomization{}
	if err := sigsyaml.UnmarshalStrict(content, &k); err != nil {
		return nil, fmt.Errorf("decode embedded kustomization of operator %q: %w", name, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range k.Resources {
		file := path.Join(directory, resource)
		content, err := manifests.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read embedded manifests: %w", err)
		}
		some, err := parseObjects(content)
		if err != nil {
			return nil, fmt.Errorf("decode embedded manifests %s: %w", file, err)
		}
		objects = append(objects, some...)
	}
	for _, object := range objects {
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		for _, l := range k.Labels {
			maps.Copy(labels, l.Pairs)
		}
		object.SetLabels(labels)
	}
	return objects, nil
}

// parseObjects takes the documents of a file apart.
func parseObjects(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		encoded, err := sigsyaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, err
		}
		if string(encoded) == "null" { // a document without content
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(encoded); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}
