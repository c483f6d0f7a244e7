// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// serviceImportDependencies are the Service that is derived from the import, and
// its endpoints.
func serviceImportDependencies(object map[string]any) []interpret.Dependency {
	name := fields.String(object, "metadata", "name")
	if name == "" {
		return nil
	}
	namespace := fields.String(object, "metadata", "namespace")
	derived := "derived-" + name
	return []interpret.Dependency{
		{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: derived},
		{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", Namespace: namespace, Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/service-name": derived},
		}},
	}
}
