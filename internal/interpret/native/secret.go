// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/capstan-io/capstan/internal/interpret/fields"

// secretPrune takes the token of a ServiceAccount out of the Secret that is
// there to have it: each cluster makes one for its own account.
func secretPrune(object map[string]any) map[string]any {
	if fields.String(object, "type") != "kubernetes.io/service-account-token" {
		return object
	}
	return fields.Without(fields.Without(object, "data"), "metadata", "annotations", "kubernetes.io/service-account.uid")
}
