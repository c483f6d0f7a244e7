// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "github.com/capstan-io/capstan/internal/interpret/fields"

// apiService follows the API of apiregistration.k8s.io/v1: Available is False
// for reasons that end when the server's Service and pods are there, and for
// others that mean a server which does not answer well.
func apiService(object map[string]any) Health {
	c := fields.ConditionOf(object, "Available")
	switch {
	case !c.Exists():
		return progressing("NotObserved", "The API server has not tried this API yet.")
	case c.True():
		return healthy("Available", "The API is available.")
	}
	switch c.Reason {
	case "ServiceNotFound", "EndpointsNotFound", "MissingEndpoints", "ServiceAccessError", "EndpointsAccessError":
		return progressing(c.Reason, "%s", because("The API's server is not there yet", c.Message))
	}
	return degraded(reasonOr(c.Reason, "NotAvailable"), "%s", because("The API is not available", c.Message))
}
