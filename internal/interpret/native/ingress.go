// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// ingressHealthVerdict: some load balancer has an address for the Ingress.
func ingressHealthVerdict(object map[string]any) string {
	for _, entry := range fields.List(object, "status", "loadBalancer", "ingress") {
		address, _ := entry.(map[string]any)
		if fields.String(address, "ip") != "" || fields.String(address, "hostname") != "" {
			return interpret.HealthVerdictIf(true)
		}
	}
	return interpret.HealthVerdictIf(false)
}

func ingressAggregate(_ map[string]any, items []interpret.ClusterItem) map[string]any {
	return mergeLoadBalancers(items)
}

// ingressDependencies are the Secrets with the certificates of its hosts.
func ingressDependencies(object map[string]any) []interpret.Dependency {
	var names []string
	for _, entry := range fields.List(object, "spec", "tls") {
		names = append(names, textField(entry, "secretName"))
	}
	return secretDependencies(object, names)
}
