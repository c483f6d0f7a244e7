// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/override"
)

// LabelNamespace is on the works of namespaces that no binding is for; its value
// is the name of the namespace.
const LabelNamespace = "fleet.capstan.io/namespace"

// NamespaceWorkName returns the name of the works of a namespace.
func NamespaceWorkName(namespace string) string { return WorkName("Namespace", "", namespace) }

// OfNamespace returns the namespace that a work is for, "" if it is for none. The label can be
// written by the member, so it counts only if the name of the work agrees with it.
func OfNamespace(work metav1.Object) string {
	name := work.GetLabels()[LabelNamespace]
	if name == "" || work.GetName() != NamespaceWorkName(name) {
		return ""
	}
	return name
}

// NamespaceTemplate returns what of a namespace of the hub goes to clusters: its
// name, labels and annotations.
func NamespaceTemplate(namespace *corev1.Namespace) *unstructured.Unstructured {
	labels := maps.Clone(namespace.Labels)
	delete(labels, corev1.LabelMetadataName) // each API server sets it
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	object.SetName(namespace.Name)
	object.SetLabels(labels)
	object.SetAnnotations(maps.Clone(namespace.Annotations))
	return object
}

// NamespaceWork returns the work that brings a namespace to the cluster of a name. The
// namespace stays there when the work goes, as it may hold what is not ours. For a
// cluster that is CheckWorkNamespace, or whose overrides cannot be applied, it returns the problem
// instead, which is the user's.
func NamespaceWork(namespace *corev1.Namespace, overrides override.Policies, clusters view.Fleet, name string) (work *workv1.ManifestWork, problem, err error) {
	if barred := CheckWorkNamespace(clusters, name); barred != nil {
		return nil, barred, nil
	}
	cluster, _ := clusters.ClusterNamed(name)
	object, applied, problem := applyOverrides(NamespaceTemplate(namespace), overrides, &cluster)
	if problem != nil {
		return nil, problem, nil
	}
	work = &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name, Name: NamespaceWorkName(namespace.Name),
			Labels: map[string]string{
				LabelNamespace:                       namespace.Name,
				karmadaworkv1alpha1.LabelPermanentID: workID(string(namespace.UID), name),
			},
			Annotations: map[string]string{},
			Finalizers:  []string{workv1.FinalizerManifestWorkCleanup},
		},
		Spec: workv1.ManifestWorkSpec{DeleteOption: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}},
	}
	recordOverrides(work, applied)
	stampOrigin(object, work, namespace)
	raw, err := object.MarshalJSON()
	if err != nil {
		return nil, nil, fmt.Errorf("encoding namespace %q for cluster %q: %w", namespace.Name, name, err)
	}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}
	return work, nil, nil
}
