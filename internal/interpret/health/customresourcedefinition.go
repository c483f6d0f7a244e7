// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "github.com/capstan-io/capstan/internal/interpret/fields"

// customResourceDefinition follows the API of apiextensions.k8s.io/v1: names
// that another definition has are refused by NamesAccepted, and the API server
// serves the resource when Established is True.
func customResourceDefinition(object map[string]any) Health {
	if c := fields.ConditionOf(object, "NamesAccepted"); c.False() {
		return degraded(reasonOr(c.Reason, "NamesNotAccepted"), "%s", because("The names are not accepted", c.Message))
	}
	switch c := fields.ConditionOf(object, "Established"); {
	case c.True():
		return healthy("Established", "The API server serves the resource.")
	case c.False() && c.Reason != "" && c.Reason != "Installing":
		return degraded(reasonOr(c.Reason, "NotEstablished"), "%s", because("The resource is not served", c.Message))
	case c.Exists():
		return progressing(reasonOr(c.Reason, "Installing"), "%s", because("The API server installs the resource", c.Message))
	}
	return progressing("NotObserved", "The API server has not seen the definition yet.")
}
