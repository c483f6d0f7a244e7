// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "github.com/capstan-io/capstan/internal/interpret/fields"

// service follows the API of v1: a Service of type LoadBalancer is reached from
// outside when status.loadBalancer has an address. All other types work as
// soon as they exist; whether pods stand behind them is not in the object.
func service(object map[string]any) Health {
	if fields.String(object, "spec", "type") != "LoadBalancer" {
		return healthy("ServiceExists", "The service exists.")
	}
	if len(fields.List(object, "status", "loadBalancer", "ingress")) == 0 {
		return progressing("LoadBalancerPending", "The load balancer has no address yet.")
	}
	return healthy("LoadBalancerReady", "The load balancer has an address.")
}
