// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
)

// Ports that components reach others at: resolvers and API servers.
const (
	dnsPort          int32 = 53
	multicastDNSPort int32 = 5353
	httpsPort        int32 = 443
	apiServerPort    int32 = 6443
)

// HubNetworkPolicies returns, with the gate of this name, the policies of the
// hub's namespace: no traffic of the components but what they need.
func HubNetworkPolicies(h Hub) []render.Object {
	if !h.Registration.Enabled(features.NetworkPolicies) {
		return nil
	}
	return []render.Object{
		render.NetworkPolicy(h.resourceMeta("default-deny-all"), networkingv1ac.NetworkPolicySpec().
			WithPodSelector(componentPods(h)).
			WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)),
		render.NetworkPolicy(h.resourceMeta("allow-egress"), networkingv1ac.NetworkPolicySpec().
			WithPodSelector(componentPods(h)).
			WithPolicyTypes(networkingv1.PolicyTypeEgress).
			WithEgress(networkingv1ac.NetworkPolicyEgressRule().WithPorts(
				policyPort(corev1.ProtocolUDP, dnsPort), policyPort(corev1.ProtocolTCP, dnsPort),
				policyPort(corev1.ProtocolUDP, multicastDNSPort), policyPort(corev1.ProtocolTCP, multicastDNSPort)).
				WithPorts(tcpPorts(apiServerPorts(h))...))),
		render.NetworkPolicy(h.resourceMeta("allow-intra-namespace"), networkingv1ac.NetworkPolicySpec().
			WithPodSelector(componentPods(h)).
			WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).
			WithIngress(networkingv1ac.NetworkPolicyIngressRule().WithFrom(sameNamespace())).
			WithEgress(networkingv1ac.NetworkPolicyEgressRule().WithTo(sameNamespace()))),
		// API servers are not pods, so they cannot be selected.
		render.NetworkPolicy(h.resourceMeta("allow-hub-ingress"), networkingv1ac.NetworkPolicySpec().
			WithPodSelector(componentPods(h)).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(networkingv1ac.NetworkPolicyIngressRule().WithPorts(servedPorts(h)...))),
		render.NetworkPolicy(h.resourceMeta("allow-prometheus-ingress"), networkingv1ac.NetworkPolicySpec().
			WithPodSelector(componentPods(h)).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(networkingv1ac.NetworkPolicyIngressRule().
				WithFrom(networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(metav1ac.LabelSelector())).
				WithPorts(metricsPorts(h)...))),
	}
}

// componentPods selects the pods of all components, and no others that a user
// may run in the namespace.
func componentPods(h Hub) *metav1ac.LabelSelectorApplyConfiguration {
	var apps []string
	for _, c := range HubComponents(h) {
		apps = append(apps, c.Workload.App)
	}
	return metav1ac.LabelSelector().WithMatchExpressions(metav1ac.LabelSelectorRequirement().
		WithKey(render.AppLabel).WithOperator(metav1.LabelSelectorOpIn).WithValues(apps...))
}

// apiServerPorts are where API servers commonly listen, and where the hub does.
func apiServerPorts(h Hub) []int32 {
	numbers := []int32{httpsPort, apiServerPort}
	if h.HubPort != 0 {
		numbers = append(numbers, h.HubPort)
	}
	return numbers
}

// servedPorts returns the ports of webhooks, aggregated APIs, debug endpoints and probes, each once.
func servedPorts(h Hub) []*networkingv1ac.NetworkPolicyPortApplyConfiguration {
	var numbers []int32
	for _, c := range HubComponents(h) {
		if server := c.apiFacingServer(); server != nil {
			numbers = append(numbers, server.Port)
		}
		if c.Debug != nil {
			numbers = append(numbers, c.Debug.Port)
		}
		numbers = append(numbers, c.Workload.HealthPort)
		for _, sidecar := range c.Workload.Sidecars {
			numbers = append(numbers, sidecar.HealthPort)
		}
	}
	return tcpPorts(numbers)
}

func metricsPorts(h Hub) []*networkingv1ac.NetworkPolicyPortApplyConfiguration {
	var numbers []int32
	for _, c := range HubComponents(h) {
		numbers = append(numbers, c.MetricsPort)
	}
	return tcpPorts(numbers)
}

func tcpPorts(numbers []int32) []*networkingv1ac.NetworkPolicyPortApplyConfiguration {
	seen := map[int32]bool{}
	var ports []*networkingv1ac.NetworkPolicyPortApplyConfiguration
	for _, number := range numbers {
		if !seen[number] {
			seen[number] = true
			ports = append(ports, policyPort(corev1.ProtocolTCP, number))
		}
	}
	return ports
}

func policyPort(protocol corev1.Protocol, number int32) *networkingv1ac.NetworkPolicyPortApplyConfiguration {
	return networkingv1ac.NetworkPolicyPort().WithProtocol(protocol).WithPort(intstr.FromInt32(number))
}

func sameNamespace() *networkingv1ac.NetworkPolicyPeerApplyConfiguration {
	return networkingv1ac.NetworkPolicyPeer().WithPodSelector(metav1ac.LabelSelector())
}
