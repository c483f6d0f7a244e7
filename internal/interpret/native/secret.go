// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// isToken reports whether a Secret is there to have the token of a ServiceAccount.
func isToken(object map[string]any) bool {
	return fields.String(object, "type") == string(corev1.SecretTypeServiceAccountToken)
}

// secretPrune takes the token of a ServiceAccount out of the Secret that is
// there to have it: each cluster makes one for its own account.
func secretPrune(object map[string]any) map[string]any {
	if !isToken(object) {
		return object
	}
	return fields.Without(fields.Without(object, "data"), "metadata", "annotations", "kubernetes.io/service-account.uid")
}

// secretRetained is the token that the cluster made.
func secretRetained(manifest map[string]any) [][]string {
	if !isToken(manifest) {
		return nil
	}
	return [][]string{{"data"}}
}

// secretDependencies returns Secrets with these names as dependencies of an object, in its
// namespace.
func secretDependencies(object map[string]any, names []string) []interpret.Dependency {
	var all []interpret.Dependency
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "" {
			all = append(all, interpret.Dependency{
				APIVersion: "v1", Kind: "Secret", Namespace: fields.String(object, "metadata", "namespace"), Name: name,
			})
		}
	}
	return all
}
