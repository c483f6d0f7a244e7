// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// customResourceDefinitionHealth follows the API of apiextensions.k8s.io/v1: names
// that another definition has are refused by NamesAccepted, and the API server
// serves the resource when Established is True.
func customResourceDefinitionHealth(object map[string]any) health.Health {
	if c := fields.ConditionOf(object, "NamesAccepted"); c.False() {
		return health.Degraded.FromCondition(c, "NamesNotAccepted", "The names are not accepted")
	}
	switch c := fields.ConditionOf(object, "Established"); {
	case c.True():
		return health.Healthy.WithReason("Established", "The API server serves the resource.")
	case c.False() && c.Reason != "" && c.Reason != "Installing":
		return health.Degraded.FromCondition(c, "NotEstablished", "The resource is not served")
	case c.Exists():
		return health.Progressing.FromCondition(c, "Installing", "The API server is installing the resource")
	}
	return health.Progressing.WithReason("NotObserved", "The API server has not observed the definition yet.")
}
