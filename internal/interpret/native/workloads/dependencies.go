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

// nameSource is where a volume or a variable has the name of an object.
type nameSource struct {
	kind string
	path []string
}

func volumeSources() []nameSource {
	return []nameSource{
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

// neededNames are the names of objects by their kind.
type neededNames map[string][]string

func (n neededNames) addNames(object map[string]any, sources ...nameSource) {
	for _, s := range sources {
		if name := fields.String(object, s.path...); name != "" {
			n[s.kind] = append(n[s.kind], name)
		}
	}
}

// neededByPod returns what a pod needs in its own namespace: ConfigMaps, Secrets, its
// ServiceAccount unless that is the default one, and claims. Volumes that are
// not the pod's own are left out.
func neededByPod(spec map[string]any, without ...string) neededNames {
	n := neededNames{}
	for _, volume := range objectEntries(spec, "volumes") {
		if slices.Contains(without, fields.String(volume, "name")) {
			continue
		}
		n.addNames(volume, volumeSources()...)
		for _, part := range objectEntries(volume, "projected", "sources") {
			n.addNames(part, nameSource{configMap, []string{"configMap", "name"}}, nameSource{secret, []string{"secret", "name"}})
		}
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, container := range objectEntries(spec, list) {
			for _, variable := range objectEntries(container, "env") {
				n.addNames(variable, nameSource{configMap, []string{"valueFrom", "configMapKeyRef", "name"}}, nameSource{secret, []string{"valueFrom", "secretKeyRef", "name"}})
			}
			for _, all := range objectEntries(container, "envFrom") {
				n.addNames(all, nameSource{configMap, []string{"configMapRef", "name"}}, nameSource{secret, []string{"secretRef", "name"}})
			}
		}
	}
	for _, pull := range objectEntries(spec, "imagePullSecrets") {
		n.addNames(pull, nameSource{secret, []string{"name"}})
	}
	n.addNames(spec, nameSource{account, []string{"serviceAccountName"}}, nameSource{account, []string{"serviceAccount"}})
	n[account] = slices.DeleteFunc(n[account], func(name string) bool { return name == "default" })
	return n
}

// objectEntries returns those entries of a list that are objects.
func objectEntries(object map[string]any, path ...string) []map[string]any {
	var found []map[string]any
	for _, entry := range fields.List(object, path...) {
		if m, ok := entry.(map[string]any); ok {
			found = append(found, m)
		}
	}
	return found
}

// dependenciesIn returns them as dependencies of an object, in its namespace.
func (n neededNames) dependenciesIn(object map[string]any) []interpret.Dependency {
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
	return neededByPod(fields.Map(object, "spec", "template", "spec")).dependenciesIn(object)
}

// PodDependencies returns what a pod with a spec needs in its namespace.
func PodDependencies(spec map[string]any, namespace string) []interpret.Dependency {
	return neededByPod(spec).dependenciesIn(map[string]any{"metadata": map[string]any{"namespace": namespace}})
}
