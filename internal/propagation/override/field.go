// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// overrideField changes fields within a string that has JSON or YAML.
func overrideField(object *unstructured.Unstructured, o policyv1alpha1.FieldOverrider, left *effortBudget) error {
	if len(o.JSON) > 0 && len(o.YAML) > 0 {
		return errors.New("use json or yaml, not both")
	}
	return overrideString(object, o.FieldPath, func(text string) (string, error) {
		if len(o.YAML) > 0 {
			return changeYAML(text, o.YAML, left)
		}
		return changeJSON(text, o.JSON, left)
	})
}

func changeJSON(text string, operations []policyv1alpha1.JSONPatchOperation, left *effortBudget) (string, error) {
	document := []byte(text)
	if len(operations) > 0 && !json.Valid(document) {
		return "", errors.New("the string is not JSON")
	}
	changed, err := patchDocument(document, operations, "json", left)
	if err != nil {
		return "", err
	}
	return string(changed), nil
}

// changeYAML loses comments and the order of keys, as YAML becomes JSON and YAML
// again.
func changeYAML(text string, operations []policyv1alpha1.JSONPatchOperation, left *effortBudget) (string, error) {
	if err := left.takeEffort(len(text), yamlEffort); err != nil {
		return "", err
	}
	if err := errors.Join(checkSingle(text), checkAliases(text)); err != nil {
		return "", err
	}
	document, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return "", fmt.Errorf("the string is not YAML: %w", err)
	}
	if document, err = patchDocument(document, operations, "yaml", left); err != nil {
		return "", err
	}
	if err := left.takeEffort(len(document), yamlEffort); err != nil { // with aliases written out it is longer than the text
		return "", err
	}
	changed, err := yaml.JSONToYAML(document)
	if err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return string(changed), nil
}

// checkSingle refuses several documents in one string: all but the first would
// be lost.
func checkSingle(text string) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	documents := 0
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the string is not YAML: %w", err)
		}
		if len(bytes.TrimSpace(document)) > 0 {
			documents++
		}
	}
	if documents > 1 {
		return fmt.Errorf("the string has %d YAML documents, and only one can be changed: replace it as a whole with plaintext", documents)
	}
	return nil
}
