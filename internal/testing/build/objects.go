// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// Namespace makes a namespace with labels, given as keys and values.
func Namespace(name string, labels ...string) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := 0; i+1 < len(labels); i += 2 {
		metav1.SetMetaDataLabel(&namespace.ObjectMeta, labels[i], labels[i+1])
	}
	return namespace
}

// Secret makes a Secret with data.
func Secret(namespace, name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

// ParseObject returns the object that a text in YAML is. Its numbers are as clients decode them.
func ParseObject(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(content); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return object
}

// Definition makes a definition of a kind of the whole cluster, served and stored as v1, any
// fields of which are kept.
func Definition(group, plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	keep := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
			}},
		},
	}
}

// ManifestWork has manifests, as JSON, delivered to a cluster.
func ManifestWork(cluster, name string, manifests ...string) *workv1.ManifestWork {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name}}
	for _, manifest := range manifests {
		raw := runtime.RawExtension{Raw: []byte(manifest)}
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: raw})
	}
	return work
}
