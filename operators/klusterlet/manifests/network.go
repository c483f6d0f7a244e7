// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// operatorApp is the label "app" of the operator's own pods, which run in the
// agents' namespace where there is no other.
const operatorApp = "klusterlet"

// Ports that agents need: those of DNS (5353 is OpenShift's) and of API servers.
func dnsPorts() []int32 { return []int32{53, 5353} }
func apiPorts() []int32 { return []int32{443, 6443} }

// metricsPort of the agents.
const metricsPort = 8080

// AgentNetworkPolicies returns the policies of the agents' namespace: nothing goes
// in or out but DNS, API servers (the hub's, on its own ports, too) and the
// reading of metrics and health.
func AgentNetworkPolicies(klusterlet *operatorv1.Klusterlet, hubPorts []int32) []render.Object {
	ports := slices.Concat(apiPorts(), hubPorts)
	slices.Sort(ports)
	ports = slices.Compact(ports)
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	meta := func(name string) render.ResourceMeta { return agentMeta(klusterlet, name) }
	agents := podSelector(RegistrationApp, WorkApp, SingletonApp)
	return []render.Object{
		render.NetworkPolicy(meta("default-deny-all"),
			networkingv1ac.NetworkPolicySpec().WithPodSelector(podSelector(RegistrationApp, WorkApp, SingletonApp, operatorApp)).WithPolicyTypes(both...)),
		render.NetworkPolicy(meta("allow-dns-and-api"),
			networkingv1ac.NetworkPolicySpec().WithPodSelector(podSelector(RegistrationApp, WorkApp, SingletonApp, operatorApp)).
				WithPolicyTypes(networkingv1.PolicyTypeEgress).
				WithEgress(
					networkingv1ac.NetworkPolicyEgressRule().
						WithPorts(policyPorts(corev1.ProtocolUDP, dnsPorts())...).
						WithPorts(policyPorts(corev1.ProtocolTCP, dnsPorts())...),
					networkingv1ac.NetworkPolicyEgressRule().
						WithPorts(policyPorts(corev1.ProtocolTCP, apiPorts())...))),
		// The operator asks the hub on behalf of the agents, so it has to reach it.
		render.NetworkPolicy(meta("klusterlet"), agentHubPolicySpec(podSelector(operatorApp), ports)),
		render.NetworkPolicy(meta("klusterlet-agent"), agentHubPolicySpec(agents, ports)),
	}
}

func agentHubPolicySpec(pods *metav1ac.LabelSelectorApplyConfiguration, ports []int32) *networkingv1ac.NetworkPolicySpecApplyConfiguration {
	return networkingv1ac.NetworkPolicySpec().WithPodSelector(pods).
		WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).
		WithIngress(networkingv1ac.NetworkPolicyIngressRule().
			WithPorts(policyPorts(corev1.ProtocolTCP, []int32{healthPort, metricsPort})...)).
		WithEgress(networkingv1ac.NetworkPolicyEgressRule().
			WithPorts(policyPorts(corev1.ProtocolTCP, ports)...))
}

func podSelector(apps ...string) *metav1ac.LabelSelectorApplyConfiguration {
	return metav1ac.LabelSelector().WithMatchExpressions(
		metav1ac.LabelSelectorRequirement().WithKey(render.AppLabel).WithOperator("In").WithValues(apps...))
}

func policyPorts(protocol corev1.Protocol, numbers []int32) []*networkingv1ac.NetworkPolicyPortApplyConfiguration {
	list := make([]*networkingv1ac.NetworkPolicyPortApplyConfiguration, 0, len(numbers))
	for _, number := range numbers {
		list = append(list, networkingv1ac.NetworkPolicyPort().WithProtocol(protocol).WithPort(intstr.FromInt32(number)))
	}
	return list
}
