// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// text is what config/manifests/<operator> says about an operator.
type text struct {
	Package      string   `json:"package"`
	DisplayName  string   `json:"displayName"`
	Description  string   `json:"description"`
	Summary      string   `json:"summary"`
	Capabilities string   `json:"capabilities"`
	Categories   string   `json:"categories"`
	Maturity     string   `json:"maturity"`
	Keywords     []string `json:"keywords"`
	CRD          struct {
		Kind        string `json:"kind"`
		DisplayName string `json:"displayName"`
		Description string `json:"description"`
		// Resources are the kinds that the operator makes for one.
		Resources []object `json:"resources"`
	} `json:"crd"`
	Samples []string `json:"samples"`

	icon     string // base64
	examples string // JSON
	first    string // JSON of the first example
}

func readText(root, operator string) (*text, error) {
	directory := filepath.Join(root, "config", "manifests", operator)
	content, err := os.ReadFile(filepath.Join(directory, "base.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading what the bundle says of %q: %w", operator, err)
	}
	t := &text{}
	if err := sigsyaml.UnmarshalStrict(content, t); err != nil {
		return nil, fmt.Errorf("reading %s/base.yaml: %w", directory, err)
	}
	icon, err := os.ReadFile(filepath.Join(directory, "icon.svg"))
	if err != nil {
		return nil, fmt.Errorf("reading the icon of %q: %w", operator, err)
	}
	t.icon = base64.StdEncoding.EncodeToString(icon)
	examples := make([]any, 0, len(t.Samples))
	for _, path := range t.Samples {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, fmt.Errorf("reading an example of %q: %w", operator, err)
		}
		example := object{}
		if err := sigsyaml.Unmarshal(content, &example); err != nil {
			return nil, fmt.Errorf("reading the example %s: %w", path, err)
		}
		examples = append(examples, withoutImages(example))
	}
	if len(examples) == 0 {
		return nil, fmt.Errorf("%s/base.yaml names no samples, want one or more", directory)
	}
	first, err := json.Marshal(examples[0])
	if err != nil {
		return nil, fmt.Errorf("encoding the first example of %q: %w", operator, err)
	}
	t.first = string(first)
	encoded, err := json.MarshalIndent(examples, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the examples of %q: %w", operator, err)
	}
	t.examples = string(encoded)
	return t, nil
}

// withoutImages returns the example without the images that a sample for kubectl
// names: an image field that is empty follows the operator, so what a user made
// of the example is upgraded with it.
func withoutImages(example object) object {
	if spec, ok := example["spec"].(object); ok {
		maps.DeleteFunc(spec, func(field string, _ any) bool {
			return strings.HasSuffix(strings.ToLower(field), "imagepullspec")
		})
	}
	return example
}

// namespace is that of the operator.
type namespace struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
}

// installed is what the kustomize base of an operator renders.
type installed struct {
	namespace    namespace
	deployment   *appsv1.Deployment
	crd          *apiextensionsv1.CustomResourceDefinition
	crdText      []byte // as it was rendered
	clusterRules []rbacv1.PolicyRule
	rules        []rbacv1.PolicyRule
}

// readManifests takes from the manifests what OLM wants in its own form. What
// OLM makes by itself (ServiceAccount, bindings) is left out, and so
// is the fence, which bundles cannot have and the operator makes if it is not
// there. What nobody thought of is an error, so that no bundle lacks it silently.
func readManifests(manifests io.Reader) (*installed, error) {
	found := &installed{}
	documents := yaml.NewYAMLReader(bufio.NewReader(manifests))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := found.add(document); err != nil {
			return nil, err
		}
	}
	if found.deployment == nil || found.crd == nil || len(found.clusterRules) == 0 || found.namespace.Metadata.Name == "" {
		return nil, errors.New("want a Namespace, a Deployment, a CustomResourceDefinition and a ClusterRole with rules among them")
	}
	return found, nil
}

func (f *installed) add(document []byte) error {
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := sigsyaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "Deployment":
		f.deployment = &appsv1.Deployment{}
		return sigsyaml.UnmarshalStrict(document, f.deployment)
	case "CustomResourceDefinition":
		f.crdText = document
		f.crd = &apiextensionsv1.CustomResourceDefinition{}
		return sigsyaml.UnmarshalStrict(document, f.crd)
	case "ClusterRole":
		role := &rbacv1.ClusterRole{}
		err := sigsyaml.UnmarshalStrict(document, role)
		f.clusterRules = append(f.clusterRules, role.Rules...)
		return err
	case "Role":
		role := &rbacv1.Role{}
		err := sigsyaml.UnmarshalStrict(document, role)
		f.rules = append(f.rules, role.Rules...)
		return err
	case "Namespace":
		return sigsyaml.Unmarshal(document, &f.namespace)
	case "", "ServiceAccount", "ClusterRoleBinding", "RoleBinding",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return nil
	default:
		return fmt.Errorf("nobody said what to do with the kind %q in a bundle", kind.Kind)
	}
}
