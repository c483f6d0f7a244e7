// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// Ports of what the API server connects to: DNS (5353 is OpenShift's), and the
// webhooks and the aggregated API server of hosted hubs.
func dnsPorts() []int32 { return []int32{53, 5353} }
func hubPorts() []int32 { return []int32{8443, 9443} }

const httpsPort int32 = 443

type (
	ingressRule = networkingv1ac.NetworkPolicyIngressRuleApplyConfiguration
	egressRule  = networkingv1ac.NetworkPolicyEgressRuleApplyConfiguration
	policyPeer  = networkingv1ac.NetworkPolicyPeerApplyConfiguration
)

// NetworkPoliciesEnabled reports whether there are NetworkPolicies.
func NetworkPoliciesEnabled(p Plane) bool { return ptr.Deref(p.Spec.NetworkPolicies.Enabled, true) }

// ComponentNetworkPolicies returns the policies of the pods, one for each component: only
// the API server talks to etcd, and it talks to nobody but etcd, DNS, the hub's
// components in the namespace of the kubeconfig, and whom the spec names.
func ComponentNetworkPolicies(p Plane) []render.Object {
	policies := []render.Object{
		componentPolicy(p, APIServer,
			[]*ingressRule{networkingv1ac.NetworkPolicyIngressRule().WithPorts(tcpPolicyPorts(fleetv1alpha1.ControlPlanePort)...)},
			append(apiServerEgress(p), dnsEgressRule())),
		componentPolicy(p, ControllerManager, nil,
			[]*egressRule{toComponent(p, APIServer, fleetv1alpha1.ControlPlanePort), dnsEgressRule()}),
	}
	if p.Hold == fleetv1alpha1.HoldStopped {
		policies = append(policies, componentPolicy(p, Restore, nil, nil))
	}
	if !p.HasManagedEtcd() {
		return policies
	}
	return append(policies, componentPolicy(p, Etcd,
		[]*ingressRule{
			networkingv1ac.NetworkPolicyIngressRule().WithFrom(componentPeer(p, APIServer), componentPeer(p, Etcd)).WithPorts(tcpPolicyPorts(EtcdClientPort)...),
			networkingv1ac.NetworkPolicyIngressRule().WithFrom(componentPeer(p, Etcd)).WithPorts(tcpPolicyPorts(etcdPeerPort)...),
		},
		[]*egressRule{toComponent(p, Etcd, etcdPeerPort, EtcdClientPort), dnsEgressRule()}))
}

func apiServerEgress(p Plane) []*egressRule {
	namespace, _ := p.KubeconfigSecret()
	rules := []*egressRule{
		networkingv1ac.NetworkPolicyEgressRule().WithPorts(tcpPolicyPorts(hubPorts()...)...).
			WithTo(networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(metav1ac.LabelSelector().
				WithMatchLabels(map[string]string{corev1.LabelMetadataName: namespace}))),
	}
	if external := p.Spec.Etcd.External; external != nil {
		rules = append(rules, networkingv1ac.NetworkPolicyEgressRule().WithPorts(tcpPolicyPorts(portsOf(external.Endpoints)...)...))
	} else {
		rules = append(rules, toComponent(p, Etcd, EtcdClientPort))
	}
	for _, to := range p.Spec.NetworkPolicies.Egress {
		rules = append(rules, networkingv1ac.NetworkPolicyEgressRule().WithPorts(tcpPolicyPorts(to.Port)...).
			WithTo(networkingv1ac.NetworkPolicyPeer().WithIPBlock(networkingv1ac.IPBlock().WithCIDR(to.CIDR))))
	}
	return rules
}

// portsOf returns the ports of URLs, each once.
func portsOf(urls []string) []int32 {
	var ports []int32
	for _, text := range urls {
		port := httpsPort
		if parsed, err := url.Parse(text); err == nil {
			if number, err := strconv.ParseUint(parsed.Port(), 10, 16); err == nil {
				port = int32(number)
			}
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}

func componentPolicy(p Plane, component string, in []*ingressRule, out []*egressRule) render.Object {
	return render.NetworkPolicy(p.resourceMeta(component), networkingv1ac.NetworkPolicySpec().
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(p.PodLabels(component))).
		WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).
		WithIngress(in...).WithEgress(out...))
}

func componentPeer(p Plane, component string) *policyPeer {
	return networkingv1ac.NetworkPolicyPeer().WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(p.PodLabels(component)))
}

func toComponent(p Plane, component string, ports ...int32) *egressRule {
	return networkingv1ac.NetworkPolicyEgressRule().WithTo(componentPeer(p, component)).WithPorts(tcpPolicyPorts(ports...)...)
}

func dnsEgressRule() *egressRule {
	return networkingv1ac.NetworkPolicyEgressRule().
		WithPorts(portsFor(corev1.ProtocolUDP, dnsPorts())...).
		WithPorts(portsFor(corev1.ProtocolTCP, dnsPorts())...)
}

func tcpPolicyPorts(ports ...int32) []*networkingv1ac.NetworkPolicyPortApplyConfiguration {
	return portsFor(corev1.ProtocolTCP, ports)
}

func portsFor(protocol corev1.Protocol, numbers []int32) []*networkingv1ac.NetworkPolicyPortApplyConfiguration {
	list := make([]*networkingv1ac.NetworkPolicyPortApplyConfiguration, 0, len(numbers))
	for _, number := range numbers {
		list = append(list, networkingv1ac.NetworkPolicyPort().WithProtocol(protocol).WithPort(intstr.FromInt32(number)))
	}
	return list
}

// DisruptionBudgets returns the budgets of the components that have replicas: a
// node that is drained takes one of them at a time.
func DisruptionBudgets(p Plane) []render.Object {
	var budgets []render.Object
	add := func(component string, replicas int32) {
		if replicas < 2 {
			return
		}
		m := p.resourceMeta(component)
		budgets = append(budgets, policyv1ac.PodDisruptionBudget(m.Name, m.Namespace).WithLabels(m.Labels).
			WithSpec(policyv1ac.PodDisruptionBudgetSpec().
				WithMaxUnavailable(intstr.FromInt32(1)).
				WithSelector(metav1ac.LabelSelector().WithMatchLabels(p.PodLabels(component)))))
	}
	if p.HasManagedEtcd() {
		add(Etcd, p.Spec.Etcd.Managed.Replicas)
	}
	add(APIServer, p.Spec.Replicas)
	add(ControllerManager, p.Spec.Replicas)
	return budgets
}
