// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/server/version"
)

const (
	channel = "stable"
	authors = "The Capstan Authors"
	website = "https://github.com/capstan-io/capstan"
)

// object is a part of a manifest that has no type here.
type object = map[string]any

// serviceVersion returns the ClusterServiceVersion of an operator.
func serviceVersion(t *text, f *installed, r release) (object, error) {
	name := f.deployment.Name
	pod := &f.deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		return nil, fmt.Errorf("the Deployment %q has %d containers, want 1", name, len(pod.Containers))
	}
	pod.Containers[0].Image = r.image
	setEnv(pod.Containers[0].Env, "AGENT_IMAGE", r.image)
	permission := func(rules []rbacv1.PolicyRule) []object {
		return []object{{"serviceAccountName": pod.ServiceAccountName, "rules": rules}}
	}
	install := object{
		"clusterPermissions": permission(f.clusterRules),
		"deployments":        []object{{"name": name, "label": f.deployment.Labels, "spec": f.deployment.Spec}},
	}
	if len(f.rules) > 0 {
		install["permissions"] = permission(f.rules)
	}
	spec := object{
		"displayName":               t.DisplayName,
		"description":               t.Description,
		"version":                   r.version,
		"maturity":                  t.Maturity,
		"keywords":                  t.Keywords,
		"minKubeVersion":            version.KubernetesMinimum,
		"provider":                  object{"name": authors, "url": website},
		"maintainers":               []object{{"name": authors, "email": "maintainers@capstan.io"}},
		"links":                     links(),
		"icon":                      []object{{"base64data": t.icon, "mediatype": "image/svg+xml"}},
		"customresourcedefinitions": object{"owned": owned(t, f)},
		"installModes":              installModes(),
		"install":                   object{"strategy": "deployment", "spec": install},
		"relatedImages":             []object{{"name": "capstan", "image": r.image}},
	}
	if r.replaces != "" {
		spec["replaces"] = t.Package + ".v" + r.replaces
	}
	metadata, err := metadata(t, f, r)
	if err != nil {
		return nil, err
	}
	return object{
		"apiVersion": "operators.coreos.com/v1alpha1",
		"kind":       "ClusterServiceVersion",
		"metadata":   metadata,
		"spec":       spec,
	}, nil
}

func metadata(t *text, f *installed, r release) (object, error) {
	namespace, err := json.Marshal(f.namespace)
	if err != nil {
		return nil, fmt.Errorf("encoding the namespace: %w", err)
	}
	annotations := object{
		"alm-examples":   t.examples,
		"capabilities":   t.Capabilities,
		"categories":     t.Categories,
		"certified":      "false",
		"containerImage": r.image,
		"createdAt":      r.date,
		"description":    t.Summary,
		"repository":     website,
		"support":        authors,
		// The namespace that the fence knows, with the labels that it should have.
		"operatorframework.io/suggested-namespace":          f.namespace.Metadata.Name,
		"operatorframework.io/suggested-namespace-template": string(namespace),
		"operatorframework.io/initialization-resource":      t.first,
	}
	if skipped := r.skipped(); skipped != "" {
		annotations["olm.skipRange"] = skipped
	}
	labels := object{"operatorframework.io/os.linux": "supported"}
	for _, architecture := range architectures() {
		labels["operatorframework.io/arch."+architecture] = "supported"
	}
	return object{
		"name":        t.Package + ".v" + r.version,
		"namespace":   "placeholder",
		"labels":      labels,
		"annotations": annotations,
	}, nil
}

// architectures are those that the image is built for.
func architectures() []string { return []string{"amd64", "arm64"} }

func links() []object {
	link := func(name, path string) object { return object{"name": name, "url": website + path} }
	return []object{
		link("Source code", ""),
		link("Installation with OLM", "/blob/main/docs/olm.md"),
		link("Documentation", "/tree/main/docs"),
		link("Issues", "/issues"),
	}
}

func setEnv(env []corev1.EnvVar, name, value string) {
	for i := range env {
		if env[i].Name == name {
			env[i].Value = value
		}
	}
}

func owned(t *text, f *installed) []object {
	var list []object
	for _, version := range f.crd.Spec.Versions {
		if version.Served {
			list = append(list, object{
				"name": f.crd.Name, "kind": t.CRD.Kind, "version": version.Name,
				"displayName": t.CRD.DisplayName, "description": t.CRD.Description, "resources": t.CRD.Resources,
			})
		}
	}
	return list
}

func installModes() []object {
	mode := func(name string, supported bool) object { return object{"type": name, "supported": supported} }
	return []object{
		mode("OwnNamespace", true), mode("SingleNamespace", true), mode("MultiNamespace", false), mode("AllNamespaces", true),
	}
}

// annotations tell OLM where the parts of the bundle are.
func annotations(packageName string) object {
	const prefix = "operators.operatorframework.io."
	return object{"annotations": object{
		prefix + "bundle.mediatype.v1":       "registry+v1",
		prefix + "bundle.manifests.v1":       "manifests/",
		prefix + "bundle.metadata.v1":        "metadata/",
		prefix + "bundle.package.v1":         packageName,
		prefix + "bundle.channels.v1":        channel,
		prefix + "bundle.channel.default.v1": channel,
		prefix + "test.mediatype.v1":         "scorecard+v1",
		prefix + "test.config.v1":            "tests/scorecard/",
	}}
}

// scorecard is the configuration of operator-sdk's checks of a bundle.
func scorecard() object {
	check := func(suite, test string) object {
		return object{
			"entrypoint": []string{"scorecard-test", test},
			"image":      "quay.io/operator-framework/scorecard-test:v1.42.0",
			"labels":     object{"suite": suite, "test": test + "-test"},
		}
	}
	return object{
		"apiVersion": "scorecard.operatorframework.io/v1alpha3",
		"kind":       "Configuration",
		"metadata":   object{"name": "config"},
		"stages": []object{{
			"parallel": true,
			"tests": []object{
				check("basic", "basic-check-spec"), check("olm", "olm-bundle-validation"),
				check("olm", "olm-crds-have-validation"), check("olm", "olm-crds-have-resources"),
			},
		}},
	}
}

// submission is what the repository of operatorhub.io wants to know of a package:
// its graph of upgrades is what each bundle replaces.
func submission() object {
	return object{"updateGraph": "replaces-mode", "addReviewers": true, "reviewers": []string{}}
}

// write replaces the directory by the bundle.
func write(directory string, t *text, f *installed, version object) error {
	if err := os.RemoveAll(directory); err != nil {
		return fmt.Errorf("removing the former bundle: %w", err)
	}
	files := []struct {
		path    string
		content any
	}{
		{filepath.Join("manifests", t.Package+".clusterserviceversion.yaml"), version},
		{filepath.Join("metadata", "annotations.yaml"), annotations(t.Package)},
		{filepath.Join("tests", "scorecard", "config.yaml"), scorecard()},
		{"ci.yaml", submission()},
	}
	for _, file := range files {
		content, err := sigsyaml.Marshal(file.content)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", file.path, err)
		}
		if err := writeFile(filepath.Join(directory, file.path), content); err != nil {
			return err
		}
	}
	crd := append(bytes.TrimSpace(f.crdText), '\n')
	return writeFile(filepath.Join(directory, "manifests", f.crd.Spec.Group+"_"+f.crd.Spec.Names.Plural+".yaml"), crd)
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the directory of %s: %w", path, err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
