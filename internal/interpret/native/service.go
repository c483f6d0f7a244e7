// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// serviceHealth follows the API of v1: a Service of type LoadBalancer is reached from
// outside when status.loadBalancer has an address. All other types work as
// soon as they exist; whether pods stand behind them is not in the object.
func serviceHealth(object map[string]any) health.Health {
	if fields.String(object, "spec", "type") != "LoadBalancer" {
		return health.Healthy.WithReason("ServiceExists", "The service exists.")
	}
	if len(fields.List(object, "status", "loadBalancer", "ingress")) == 0 {
		return health.Progressing.WithReason("LoadBalancerPending", "The load balancer has no address yet.")
	}
	return health.Healthy.WithReason("LoadBalancerReady", "The load balancer has an address.")
}

// serviceValues reports where the Service is reached: inside the cluster, and
// the first address of its load balancer.
func serviceValues(object map[string]any) []interpret.WellKnownValue {
	values := []interpret.WellKnownValue{{Name: "ClusterIP", Value: fields.Get(object, "spec", "clusterIP")}}
	for _, entry := range fields.List(object, "status", "loadBalancer", "ingress") {
		ingress, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		return append(values,
			interpret.WellKnownValue{Name: "LoadBalancerIP", Value: ingress["ip"]},
			interpret.WellKnownValue{Name: "LoadBalancerHostname", Value: ingress["hostname"]})
	}
	return values
}

// serviceHealthVerdict: a Service of type LoadBalancer has an address.
func serviceHealthVerdict(object map[string]any) string {
	return interpret.HealthVerdictIf(serviceHealth(object).Status == health.Healthy)
}

// serviceReflect reports the addresses of a load balancer. Services of other
// types have nothing in their status that a cluster adds.
func serviceReflect(object map[string]any) map[string]any {
	if fields.String(object, "spec", "type") != "LoadBalancer" {
		return nil
	}
	return fields.Only(fields.Map(object, "status"), "loadBalancer")
}

// serviceAllocated are the fields, besides its addresses, that the API server gives a
// Service whose user has not written them.
func serviceAllocated() [][]string {
	return [][]string{{"spec", "healthCheckNodePort"}, {"spec", "ipFamilies"}, {"spec", "ipFamilyPolicy"}}
}

// servicePrune: each cluster gives the Service an address of its own, unless
// the Service has none on purpose. What else the hub's API server allocated, each
// cluster allocates itself: a number that is free on the hub may be taken there, and
// it may have other families of addresses. What a user wrote is sent.
func servicePrune(object map[string]any) map[string]any {
	w, known := writtenOf(object)
	if known {
		for _, path := range serviceAllocated() {
			if !w.hasField(path...) {
				object = fields.Without(object, path...)
			}
		}
		object = withoutAllocatedPorts(object, w)
	}
	if fields.String(object, "spec", "clusterIP") == "None" {
		return object
	}
	return fields.Without(fields.Without(object, "spec", "clusterIP"), "spec", "clusterIPs")
}

// withoutAllocatedPorts returns a Service without the node ports that nobody wrote.
func withoutAllocatedPorts(object map[string]any, w writtenFields) map[string]any {
	ports := slices.Clone(fields.List(object, "spec", "ports"))
	applied := nodePortsIn(w.applied)
	changed := false
	for i, entry := range ports {
		port, _ := entry.(map[string]any)
		key := portKeyOf(port)
		if _, has := port["nodePort"]; has && !applied[key] && !w.ownsNodePort(key) {
			ports[i] = fields.Without(port, "nodePort")
			changed = true
		}
	}
	if !changed {
		return object
	}
	return fields.With(object, ports, "spec", "ports")
}

// portKey is what tells the ports of a Service apart.
type portKey struct {
	number   int64
	protocol string
}

func portKeyOf(port map[string]any) portKey {
	number, _ := fields.Int(port, "port")
	return portKey{number, cmp.Or(fields.String(port, "protocol"), "TCP")}
}

// nodePortsIn returns the ports of a Service that have a node port.
func nodePortsIn(service map[string]any) map[portKey]bool {
	have := map[portKey]bool{}
	for _, entry := range fields.List(service, "spec", "ports") {
		if port, _ := entry.(map[string]any); port["nodePort"] != nil {
			have[portKeyOf(port)] = true
		}
	}
	return have
}

// ownsNodePort reports whether the node port of a port has a manager.
func (w writtenFields) ownsNodePort(of portKey) bool {
	key := fieldpath.KeyByFields("port", of.number, "protocol", of.protocol)
	path, err := fieldpath.MakePath("spec", "ports", key, "nodePort")
	return err == nil && w.owned.Has(path)
}

// serviceAggregate: only load balancers have a status that clusters add to. The
// API server completes the mode of an address, so that it is there already.
func serviceAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	if fields.String(template, "spec", "type") != "LoadBalancer" {
		return nil
	}
	state := mergeLoadBalancers(items)
	list := fields.List(state, "loadBalancer", "ingress")
	for i, entry := range list {
		if textField(entry, "ip") != "" && textField(entry, "ipMode") == "" {
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
