// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// serviceHealth follows the API of v1: a Service of type LoadBalancer is reached from
// outside when status.loadBalancer has an address. All other types work as
// soon as they exist; whether pods stand behind them is not in the object.
func serviceHealth(object map[string]any) health.Health {
	if fields.String(object, "spec", "type") != "LoadBalancer" {
		return health.Healthy.With("ServiceExists", "The service exists.")
	}
	if len(fields.List(object, "status", "loadBalancer", "ingress")) == 0 {
		return health.Progressing.With("LoadBalancerPending", "The load balancer has no address yet.")
	}
	return health.Healthy.With("LoadBalancerReady", "The load balancer has an address.")
}

// serviceValues reports where the Service is reached: inside the cluster, and
// the first address of its load balancer.
func serviceValues(object map[string]any) []interpret.Value {
	values := []interpret.Value{{Name: "ClusterIP", Value: fields.Get(object, "spec", "clusterIP")}}
	for _, entry := range fields.List(object, "status", "loadBalancer", "ingress") {
		ingress, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		return append(values,
			interpret.Value{Name: "LoadBalancerIP", Value: ingress["ip"]},
			interpret.Value{Name: "LoadBalancerHostname", Value: ingress["hostname"]})
	}
	return values
}

// serviceVerdict: a Service of type LoadBalancer has an address.
func serviceVerdict(object map[string]any) string {
	return interpret.VerdictIf(serviceHealth(object).Status == health.Healthy)
}

// serviceReflect reports the addresses of a load balancer. Services of other
// types have nothing in their status that a cluster adds.
func serviceReflect(object map[string]any) map[string]any {
	if fields.String(object, "spec", "type") != "LoadBalancer" {
		return nil
	}
	return fields.Only(fields.Map(object, "status"), "loadBalancer")
}

// servicePrune: each cluster gives the Service an address of its own, unless
// the Service has none on purpose.
func servicePrune(object map[string]any) map[string]any {
	if fields.String(object, "spec", "clusterIP") == "None" {
		return object
	}
	return fields.Without(fields.Without(object, "spec", "clusterIP"), "spec", "clusterIPs")
}

// serviceAggregate: only load balancers have a status that clusters add to. The
// API server completes the mode of an address, so that it is there already.
func serviceAggregate(template map[string]any, items []interpret.Item) map[string]any {
	if fields.String(template, "spec", "type") != "LoadBalancer" {
		return nil
	}
	state := balancers(items)
	list := fields.List(state, "loadBalancer", "ingress")
	for i, entry := range list {
		if text(entry, "ip") != "" && text(entry, "ipMode") == "" {
			address, _ := entry.(map[string]any)
			list[i] = fields.With(address, "VIP", "ipMode")
		}
	}
	return state
}

// serviceRetained are what the API server of the cluster gives the Service.
func serviceRetained(map[string]any) [][]string {
	return [][]string{{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "healthCheckNodePort"}}
}
