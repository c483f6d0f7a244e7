// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// NamespaceManifest returns what of a namespace of the hub goes to clusters: its
// name, labels and annotations.
func NamespaceManifest(namespace *corev1.Namespace) ([]byte, error) {
	labels, annotations := maps.Clone(namespace.Labels), maps.Clone(namespace.Annotations)
	delete(labels, corev1.LabelMetadataName) // each API server sets it
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": namespace.Name, "labels": labels, "annotations": annotations},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding namespace %q: %w", namespace.Name, err)
	}
	return raw, nil
}
