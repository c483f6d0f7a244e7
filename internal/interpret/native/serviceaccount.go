// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"slices"
	"strings"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// serviceAccountPrune takes out the Secrets that a cluster made for the account
// by itself, as clusters before Kubernetes 1.24 do.
func serviceAccountPrune(object map[string]any) map[string]any {
	secrets := fields.List(object, "secrets")
	made := fields.String(object, "metadata", "name") + "-token-"
	kept := slices.DeleteFunc(slices.Clone(secrets), func(entry any) bool {
		reference, _ := entry.(map[string]any)
		return strings.HasPrefix(fields.String(reference, "name"), made)
	})
	switch len(kept) {
	case len(secrets):
		return object
	case 0:
		return fields.Without(object, "secrets")
	}
	return fields.With(object, kept, "secrets")
}

// serviceAccountDependencies are the Secrets with which its pods pull images.
func serviceAccountDependencies(object map[string]any) []interpret.Dependency {
	var names []string
	for _, entry := range fields.List(object, "imagePullSecrets") {
		names = append(names, textField(entry, "name"))
	}
	return secretDependencies(object, names)
}
