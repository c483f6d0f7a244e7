// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/server/version"
)

// object is a part of a manifest.
type object = map[string]any

// objects are what the kustomize base of an operator renders.
type objects struct {
	all        []object
	definition *apiextensionsv1.CustomResourceDefinition
}

func readObjects(manifests io.Reader) (*objects, error) {
	found := &objects{}
	documents := yaml.NewYAMLReader(bufio.NewReader(manifests))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		o := object{}
		if err := sigsyaml.Unmarshal(document, &o); err != nil {
			return nil, err
		}
		if o["kind"] == "CustomResourceDefinition" {
			found.definition = &apiextensionsv1.CustomResourceDefinition{}
			if err := sigsyaml.Unmarshal(document, found.definition); err != nil {
				return nil, err
			}
		}
		found.all = append(found.all, o)
	}
	if found.definition == nil {
		return nil, errors.New("there is no CustomResourceDefinition among them")
	}
	return found, nil
}

// files of the templates by the kinds that they have. A kind that nobody thought
// of is an error, so that no chart lacks it silently. The namespace is the one of
// the release, which helm creates.
func templateOf(kind string) (string, error) {
	switch kind {
	case "Namespace":
		return "", nil
	case "CustomResourceDefinition":
		return "templates/definition.yaml", nil
	case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
		return "templates/rbac.yaml", nil
	case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return "templates/fence.yaml", nil
	case "Deployment":
		return "templates/deployment.yaml", nil
	default:
		return "", fmt.Errorf("nobody said what to do with the kind %q in a chart", kind)
	}
}

// templates returns the templates that are made of the base.
func (c chart) templates(base *objects) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, o := range base.all {
		kind, _ := o["kind"].(string)
		file, err := templateOf(kind)
		if err != nil {
			return nil, err
		}
		if file == "" {
			continue
		}
		if kind == "Deployment" {
			if err := parametrize(o); err != nil {
				return nil, err
			}
		}
		text, err := template(o, kind)
		if err != nil {
			return nil, err
		}
		if len(files[file]) > 0 {
			files[file] = append(files[file], "---\n"...)
		}
		files[file] = append(files[file], text...)
	}
	for file, text := range files {
		if c.name == "klusterlet" { // another release may have the operator
			text = []byte("{{- if not .Values.noOperator }}\n" + string(bytes.TrimSpace(text)) + "\n{{- end }}\n")
		}
		files[file] = text
	}
	return files, nil
}

// mark is a value that is replaced by an expression.
func mark(name string) string { return "@" + name + "@" }

// parametrize puts marks into the Deployment where values go.
func parametrize(deployment object) error {
	spec, _ := deployment["spec"].(object)
	template, _ := spec["template"].(object)
	pod, _ := template["spec"].(object)
	containers, _ := pod["containers"].([]any)
	if len(containers) != 1 {
		return fmt.Errorf("the Deployment has %d containers, want 1", len(containers))
	}
	container, _ := containers[0].(object)
	spec["replicas"] = mark("replicas")
	for _, name := range []string{"nodeSelector", "tolerations", "affinity", "imagePullSecrets", "priorityClassName"} {
		pod[name] = mark(name)
	}
	pod["securityContext"] = mark("podSecurityContext")
	container["securityContext"], container["resources"] = mark("securityContext"), mark("resources")
	container["image"], container["imagePullPolicy"] = mark("image"), mark("imagePullPolicy")
	args, _ := container["args"].([]any)
	container["args"] = append(args, mark("flags"))
	env, _ := container["env"].([]any)
	for _, e := range env {
		if variable, _ := e.(object); variable["name"] == "AGENT_IMAGE" {
			variable["value"] = mark("image")
		}
	}
	return nil
}

// template returns the object as a template.
func template(o object, kind string) (string, error) {
	metadata, _ := o["metadata"].(object)
	metadata["labels"] = mark("labels")
	if kind == "CustomResourceDefinition" {
		annotations, _ := metadata["annotations"].(object)
		if annotations == nil {
			annotations = object{}
			metadata["annotations"] = annotations
		}
		// Who uninstalls without hooks does not lose all objects by it.
		annotations["helm.sh/resource-policy"] = "keep"
	}
	moved, _ := inNamespace(o).(object)
	content, err := sigsyaml.Marshal(moved)
	if err != nil {
		return "", fmt.Errorf("encoding a %s: %w", kind, err)
	}
	if bytes.Contains(content, []byte("{{")) {
		return "", fmt.Errorf("a %s has {{ in it, which is none of Helm's", kind)
	}
	text := strings.ReplaceAll(string(content), namespaceMark, "{{ .Release.Namespace }}")
	return expressions(text, kind), nil
}

const namespaceMark = "@namespace@"

// mention finds the operator's namespace in what an object says of it in CEL.
var mention = regexp.MustCompile(`'` + operatorv1.DefaultOperatorNamespace + `'|system:serviceaccount:` + operatorv1.DefaultOperatorNamespace + `:`)

// inNamespace returns the value with the namespace of the release instead of the
// operator's.
func inNamespace(from any) any {
	switch from := from.(type) {
	case object:
		for key, child := range from {
			if key == "namespace" && child == operatorv1.DefaultOperatorNamespace {
				from[key] = namespaceMark
				continue
			}
			from[key] = inNamespace(child)
		}
	case []any:
		for i, child := range from {
			from[i] = inNamespace(child)
		}
	case string:
		return mention.ReplaceAllStringFunc(from, func(found string) string {
			return strings.Replace(found, operatorv1.DefaultOperatorNamespace, namespaceMark, 1)
		})
	}
	return from
}

var (
	// field is a field whose value is a mark; what follows a dash is one, too.
	field = regexp.MustCompile(`(?m)^( *)(- )?(\w+): '?@(\w+)@'?\n`)
	item  = regexp.MustCompile(`(?m)^( *)- '?@flags@'?\n`)
)

// expressions replaces the marks of a template.
func expressions(text, kind string) string {
	text = item.ReplaceAllString(text, "$1{{- if .Values.enableSyncLabels }}\n$1- --enable-sync-labels\n$1{{- end }}\n")
	return field.ReplaceAllStringFunc(text, func(line string) string {
		found := field.FindStringSubmatch(line)
		indent, dash, name, value := found[1], found[2], found[3], found[4]
		deeper := len(indent) + len(dash) + 2
		block := func(from string) string {
			return fmt.Sprintf("%[1]s{{- with %[2]s }}\n%[1]s%[3]s%[4]s:\n%[1]s  {{- toYaml . | nindent %[5]d }}\n%[1]s{{- end }}\n", indent, from, dash, name, deeper)
		}
		switch value {
		case "labels":
			include := "capstan.labels"
			if kind == "Deployment" {
				include = "capstan.deploymentLabels"
			}
			return fmt.Sprintf("%slabels:\n%s  {{- include %q . | nindent %d }}\n", indent, indent, include, deeper)
		case "replicas":
			return indent + "replicas: {{ .Values.replicaCount }}\n"
		case "image":
			return indent + dash + name + ": {{ include \"capstan.image\" . | quote }}\n"
		case "imagePullPolicy":
			return indent + dash + name + ": {{ .Values.images.imagePullPolicy }}\n"
		case "imagePullSecrets":
			return strings.Replace(block(`(include "capstan.pullSecrets" .)`), "toYaml . | nindent", ". | nindent", 1)
		case "priorityClassName":
			return indent + "{{- with .Values.priorityClassName }}\n" + indent + "priorityClassName: {{ . }}\n" + indent + "{{- end }}\n"
		case "nodeSelector", "tolerations", "affinity", "podSecurityContext", "securityContext", "resources":
			return block(".Values." + value)
		default:
			return line
		}
	})
}

// metadata is Chart.yaml.
func (c chart) metadata() string {
	return fmt.Sprintf(`apiVersion: v2
name: %s
description: %s
type: application
version: %s
appVersion: %q
kubeVersion: ">= %s-0"
home: https://github.com/capstan-io/capstan
icon: https://raw.githubusercontent.com/capstan-io/capstan/main/config/manifests/%s/icon.svg
sources:
- https://github.com/capstan-io/capstan
keywords:
- multicluster
- fleet
- open-cluster-management
maintainers:
- name: The Capstan Authors
`, c.name, c.about, c.release, c.release, version.KubernetesMinimum, strings.ToLower(c.kind))
}
