// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"slices"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// The kinds that pods need, in the order in which they are named.
const (
	configMap = "ConfigMap"
	secret    = "Secret"
	account   = "ServiceAccount"
	claim     = "PersistentVolumeClaim"
)

// source is where a volume or a variable has the name of an object.
type source struct {
	kind string
	path []string
}

func volumeSources() []source {
	return []source{
		{configMap, []string{"configMap", "name"}},
		{secret, []string{"secret", "secretName"}},
		{claim, []string{"persistentVolumeClaim", "claimName"}},
		{secret, []string{"csi", "nodePublishSecretRef", "name"}},
		{secret, []string{"azureFile", "secretName"}},
		{secret, []string{"cephfs", "secretRef", "name"}},
		{secret, []string{"cinder", "secretRef", "name"}},
		{secret, []string{"flexVolume", "secretRef", "name"}},
		{secret, []string{"iscsi", "secretRef", "name"}},
		{secret, []string{"rbd", "secretRef", "name"}},
		{secret, []string{"scaleIO", "secretRef", "name"}},
		{secret, []string{"storageos", "secretRef", "name"}},
	}
}

// needed are the names of objects by their kind.
type needed map[string][]string

func (n needed) add(object map[string]any, sources ...source) {
	for _, s := range sources {
		if name := fields.String(object, s.path...); name != "" {
			n[s.kind] = append(n[s.kind], name)
		}
	}
}

// needs returns what a pod needs in its own namespace: ConfigMaps, Secrets, its
// ServiceAccount unless that is the default one, and claims. Volumes that are
// not the pod's own are left out.
func needs(spec map[string]any, without ...string) needed {
	n := needed{}
	for _, volume := range objects(spec, "volumes") {
		if slices.Contains(without, fields.String(volume, "name")) {
			continue
		}
		n.add(volume, volumeSources()...)
		for _, part := range objects(volume, "projected", "sources") {
			n.add(part, source{configMap, []string{"configMap", "name"}}, source{secret, []string{"secret", "name"}})
		}
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, container := range objects(spec, list) {
			for _, variable := range objects(container, "env") {
				n.add(variable, source{configMap, []string{"valueFrom", "configMapKeyRef", "name"}}, source{secret, []string{"valueFrom", "secretKeyRef", "name"}})
			}
			for _, all := range objects(container, "envFrom") {
				n.add(all, source{configMap, []string{"configMapRef", "name"}}, source{secret, []string{"secretRef", "name"}})
			}
		}
	}
	for _, pull := range objects(spec, "imagePullSecrets") {
		n.add(pull, source{secret, []string{"name"}})
	}
	n.add(spec, source{account, []string{"serviceAccountName"}}, source{account, []string{"serviceAccount"}})
	n[account] = slices.DeleteFunc(n[account], func(name string) bool { return name == "default" })
	return n
}

// objects returns those entries of a list that are objects.
func objects(object map[string]any, path ...string) []map[string]any {
	var found []map[string]any
	for _, entry := range fields.List(object, path...) {
		if m, ok := entry.(map[string]any); ok {
			found = append(found, m)
		}
	}
	return found
}

// in returns them as dependencies of an object, in its namespace.
func (n needed) in(object map[string]any) []interpret.Dependency {
	var all []interpret.Dependency
	for _, kind := range []string{configMap, secret, account, claim} {
		names := n[kind]
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			all = append(all, interpret.Dependency{
				APIVersion: "v1", Kind: kind, Namespace: fields.String(object, "metadata", "namespace"), Name: name,
			})
		}
	}
	return all
}

// templateDependencies are those of the pods of spec.template.
func templateDependencies(object map[string]any) []interpret.Dependency {
	return needs(fields.Map(object, "spec", "template", "spec")).in(object)
}

// PodDependencies returns what a pod with a spec needs in its namespace.
func PodDependencies(spec map[string]any, namespace string) []interpret.Dependency {
	return needs(spec).in(map[string]any{"metadata": map[string]any{"namespace": namespace}})
}
