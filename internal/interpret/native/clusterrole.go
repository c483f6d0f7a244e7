// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import "github.com/capstan-io/capstan/internal/interpret/fields"

// clusterRolePrune takes out the rules that the controller of a cluster collects from the
// roles that the aggregationRule selects there: those of the hub say what is granted on the
// hub, and change whenever one of its roles does. A controller of the member collects its own.
func clusterRolePrune(object map[string]any) map[string]any {
	if fields.Get(object, "aggregationRule") == nil {
		return object
	}
	return fields.Without(object, "rules")
}
