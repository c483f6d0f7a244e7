// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// apiServiceHealth follows the API of apiregistration.k8s.io/v1: Available is False
// for reasons that end when the server's Service and pods are there, and for
// others that mean a server which does not answer well.
func apiServiceHealth(object map[string]any) health.Health {
	c := fields.ConditionOf(object, "Available")
	switch {
	case !c.Exists():
		return health.Progressing.WithReason("NotObserved", "The API server has not tried this API yet.")
	case c.True():
		return health.Healthy.WithReason("Available", "The API is available.")
	}
	switch c.Reason {
	case "ServiceNotFound", "EndpointsNotFound", "MissingEndpoints", "ServiceAccessError", "EndpointsAccessError":
		return health.Progressing.WithReason(c.Reason, "%s", health.SentenceWithCause("The API's server is not available yet", c.Message))
	}
	return health.Degraded.FromCondition(c, "NotAvailable", "The API is not available")
}
