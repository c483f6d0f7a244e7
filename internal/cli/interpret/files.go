// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	core "github.com/capstan-io/capstan/internal/interpret"
)

const (
	// standardInput is the name of a file that is the standard input.
	standardInput = "-"
	// fileMaxBytes limits a file: more than an object can have.
	fileMaxBytes = 16 << 20
)

// readDocuments returns the documents of a file in YAML or JSON.
func readDocuments(file string, in io.Reader) ([][]byte, error) {
	content, err := readInput(file, in)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", inputName(file), err)
		}
		var something any
		if err := sigsyaml.Unmarshal(document, &something); err != nil {
			return nil, exit.Next(fmt.Errorf("%s: %w", inputName(file), err), "Give a file in YAML or JSON.")
		}
		if something != nil {
			all = append(all, document)
		}
	}
}

func readInput(file string, in io.Reader) ([]byte, error) {
	if file != standardInput {
		opened, err := os.Open(file) //nolint:gosec // the user names the file
		if err != nil {
			return nil, exit.Next(err, "Name files that can be read, or - for the standard input.")
		}
		defer opened.Close() //nolint:errcheck // it was only read
		in = opened
	}
	content, err := io.ReadAll(io.LimitReader(in, fileMaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", inputName(file), err)
	}
	if len(content) > fileMaxBytes {
		return nil, fmt.Errorf("%s has more than %d MiB", inputName(file), fileMaxBytes>>20)
	}
	return content, nil
}

// inputName is what messages call a file.
func inputName(file string) string {
	if file == standardInput {
		return "the standard input"
	}
	return file
}

// customizations reads those of the files.
func (o *interpretOptions) customizations(in io.Reader) ([]configv1alpha1.ResourceInterpreterCustomization, error) {
	kind := configv1alpha1.GroupVersion.WithKind("ResourceInterpreterCustomization")
	var all []configv1alpha1.ResourceInterpreterCustomization
	for _, file := range o.files {
		written, err := readDocuments(file, in)
		if err != nil {
			return nil, err
		}
		for _, document := range flattenLists(written) {
			c := configv1alpha1.ResourceInterpreterCustomization{}
			if err := sigsyaml.Unmarshal(document, &c.TypeMeta); err != nil || c.GroupVersionKind() != kind {
				return nil, exit.Next(fmt.Errorf("%s contains something other than a ResourceInterpreterCustomization of %s", inputName(file), configv1alpha1.GroupVersion),
					"Give customizations with -f, and objects with --desired-file or --observed-file.")
			}
			if err := sigsyaml.UnmarshalStrict(document, &c); err != nil {
				return nil, exit.Next(fmt.Errorf("%s: %w", inputName(file), err), "\"capstan interpret --show-doc\" lists the fields.")
			}
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil, exit.Next(errors.New("the files of -f contain no ResourceInterpreterCustomization"), "Name files that have some, or - for the standard input.")
	}
	return all, nil
}

// flattenLists has the items of lists in their places, which kubectl prints.
func flattenLists(documents [][]byte) [][]byte {
	var all [][]byte
	for _, document := range documents {
		var list struct {
			Kind  string            `json:"kind"`
			Items []json.RawMessage `json:"items"`
		}
		if err := sigsyaml.Unmarshal(document, &list); err != nil || !strings.HasSuffix(list.Kind, "List") {
			all = append(all, document)
			continue
		}
		for _, item := range list.Items {
			all = append(all, item)
		}
	}
	return all
}

// readObject reads the only object of a file; none if no file is named.
func readObject(file string, in io.Reader) (*unstructured.Unstructured, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // documented
	}
	all, err := readDocuments(file, in)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, exit.Next(fmt.Errorf("%s has %d objects", inputName(file), len(all)), "An operation works on one object: give a file with just that one.")
	}
	content := map[string]any{}
	if err := decodeYAML(all[0], &content); err != nil {
		return nil, exit.Next(fmt.Errorf("%s is not an object: %w", inputName(file), err), "Give the object as \"kubectl get -o yaml\" prints it.")
	}
	o := &unstructured.Unstructured{Object: content}
	if o.GetAPIVersion() == "" || o.GetKind() == "" {
		return nil, exit.Next(fmt.Errorf("the object of %s has no apiVersion or no kind", inputName(file)), "They determine how it is interpreted.")
	}
	return o, nil
}

// decodeYAML decodes YAML with numbers as the API machinery has them.
func decodeYAML(document []byte, into any) error {
	content, err := sigsyaml.YAMLToJSON(document)
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(content, into)
}

// clusterReport is what a cluster reports of its object, as a binding has it.
type clusterReport struct {
	ClusterName    string         `json:"clusterName"`
	Status         map[string]any `json:"status,omitempty"`
	Applied        bool           `json:"applied,omitempty"`
	AppliedMessage string         `json:"appliedMessage,omitempty"`
	Health         string         `json:"health,omitempty"`
}

// readItems reads what clusters report: a list, one after the other, or a binding.
func readItems(file string, in io.Reader) ([]core.ClusterItem, error) {
	if file == "" {
		return nil, nil
	}
	all, err := readDocuments(file, in)
	if err != nil {
		return nil, err
	}
	found := []core.ClusterItem{}
	for _, document := range all {
		reports, err := decodeReports(document)
		if err != nil {
			return nil, exit.Next(fmt.Errorf("%s: %w", inputName(file), err), "An item is {clusterName, status, applied, appliedMessage, health}, as in status.aggregatedStatus of a binding.")
		}
		for _, r := range reports {
			if r.ClusterName == "" {
				return nil, exit.Next(fmt.Errorf("%s: an item has no clusterName", inputName(file)), "An item is {clusterName, status, applied, appliedMessage, health}, as in status.aggregatedStatus of a binding.")
			}
			found = append(found, core.ClusterItem{Cluster: r.ClusterName, Status: r.Status, Applied: r.Applied, Message: r.AppliedMessage, Health: r.Health})
		}
	}
	return found, nil
}

// decodeReports reads a document with items.
func decodeReports(document []byte) ([]clusterReport, error) {
	var some any
	if err := decodeYAML(document, &some); err != nil {
		return nil, err
	}
	if _, is := some.([]any); is {
		var list []clusterReport
		return list, decodeYAML(document, &list)
	}
	var binding struct {
		Kind   string `json:"kind"`
		Status struct {
			AggregatedStatus []clusterReport `json:"aggregatedStatus"`
		} `json:"status"`
	}
	if err := decodeYAML(document, &binding); err == nil && (binding.Kind == "ResourceBinding" || binding.Kind == "ClusterResourceBinding") {
		return binding.Status.AggregatedStatus, nil
	}
	one := make([]clusterReport, 1)
	return one, decodeYAML(document, &one[0])
}

// readOperationInput reads what an operation is about.
func (o *interpretOptions) readOperationInput(in io.Reader) (interpreters.OperationInput, error) {
	var given interpreters.OperationInput
	var err error
	if given.Desired, err = readObject(o.desired, in); err != nil {
		return given, err
	}
	if given.Observed, err = readObject(o.observed, in); err != nil {
		return given, err
	}
	if given.Items, err = readItems(o.status, in); err != nil {
		return given, err
	}
	if o.saysReplicas {
		given.Replicas = &o.replicas
	}
	return given, nil
}
