// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"slices"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// balancers returns the addresses of all clusters' load balancers in
// status.loadBalancer. An address without a hostname gets the name of its
// cluster for one, so that it can be told where it leads.
func balancers(items []interpret.Item) map[string]any {
	if len(items) == 0 {
		return nil
	}
	var all []any
	for _, item := range items {
		for _, entry := range fields.List(item.Status, "loadBalancer", "ingress") {
			address, ok := entry.(map[string]any)
			if !ok {
				continue
			}
			if fields.String(address, "hostname") == "" {
				address = fields.With(address, item.Cluster, "hostname")
			}
			if !slices.ContainsFunc(all, func(other any) bool { return aggregate.Same(other, address) }) {
				all = append(all, address)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b any) int {
		return cmp.Or(cmp.Compare(text(a, "hostname"), text(b, "hostname")), cmp.Compare(text(a, "ip"), text(b, "ip")))
	})
	addresses := map[string]any{}
	if len(all) > 0 {
		addresses["ingress"] = all
	}
	return map[string]any{"loadBalancer": addresses}
}

func text(object any, name string) string {
	m, _ := object.(map[string]any)
	return fields.String(m, name)
}
