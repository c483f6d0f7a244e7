// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// mergeLoadBalancers returns the addresses of all clusters' load balancers in
// status.loadBalancer, each once and as its cluster reports it: a hostname that no DNS
// server knows would mislead those who read it. The binding says which cluster has which.
// What is no address is left out: the hub would refuse those of all clusters with it.
func mergeLoadBalancers(items []interpret.ClusterItem) map[string]any {
	if len(items) == 0 {
		return nil
	}
	var all []any
	for _, item := range items {
		for _, entry := range fields.List(item.Status, "loadBalancer", "ingress") {
			address, ok := entry.(map[string]any)
			if !ok || !isAddress(address) {
				continue
			}
			all = append(all, address)
		}
	}
	all = aggregate.DistinctValues(all)
	slices.SortStableFunc(all, func(a, b any) int {
		return cmp.Or(cmp.Compare(textField(a, "hostname"), textField(b, "hostname")), cmp.Compare(textField(a, "ip"), textField(b, "ip")))
	})
	addresses := map[string]any{}
	if len(all) > 0 {
		addresses["ingress"] = all
	}
	return map[string]any{"loadBalancer": addresses}
}

// isAddress reports whether the API server would take an address as one of a Service or
// an Ingress.
func isAddress(address map[string]any) bool {
	content, err := json.Marshal(address)
	var typed corev1.LoadBalancerIngress
	if err != nil || json.Unmarshal(content, &typed) != nil {
		return false
	}
	ip, err := netip.ParseAddr(typed.IP)
	if typed.IP != "" && (err != nil || ip.Zone() != "") {
		return false
	}
	if _, err := netip.ParseAddr(typed.Hostname); err == nil || typed.Hostname != "" && len(validation.IsDNS1123Subdomain(typed.Hostname)) > 0 {
		return false
	}
	mode := ptr.Deref(typed.IPMode, "")
	return mode == "" || typed.IP != "" && (mode == corev1.LoadBalancerIPModeVIP || mode == corev1.LoadBalancerIPModeProxy)
}

func textField(object any, name string) string {
	m, _ := object.(map[string]any)
	return fields.String(m, name)
}
