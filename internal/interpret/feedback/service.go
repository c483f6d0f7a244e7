// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

import "github.com/capstan-io/capstan/internal/interpret/fields"

// service reports where the Service is reached: inside the cluster, and the
// first address of its load balancer.
func service(object map[string]any) []found {
	values := []found{{"ClusterIP", fields.Get(object, "spec", "clusterIP")}}
	for _, entry := range fields.List(object, "status", "loadBalancer", "ingress") {
		ingress, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		return append(values,
			found{"LoadBalancerIP", ingress["ip"]},
			found{"LoadBalancerHostname", ingress["hostname"]})
	}
	return values
}
