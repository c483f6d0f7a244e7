// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// rendered returns all objects by kind and name.
func rendered(t *testing.T, p Plane) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, object := range objectsOf(t, p) {
		u, err := render.ToUnstructured(object)
		expect.NoError(t, err)
		all[u.GetKind()+" "+u.GetName()] = u
	}
	return all
}

// podOf returns the pods of a workload.
func podOf(t *testing.T, workload *unstructured.Unstructured) corev1.PodSpec {
	t.Helper()
	template, _, err := unstructured.NestedMap(workload.Object, "spec", "template")
	expect.NoError(t, err)
	pod := corev1.PodTemplateSpec{}
	expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod))
	return pod.Spec
}

// TestSecretsAreOnlyWhereTheyAreNeeded: whoever gets into a pod has what it reads.
// The keys of the authorities are in no pod, but that of clients, which the
// controller manager signs with.
func TestSecretsAreOnlyWhereTheyAreNeeded(t *testing.T) {
	objects := rendered(t, plane(everything))
	for workload, want := range map[string][]string{
		etcdObject:    {"hub-etcd-server"},
		serverObject:  {"hub-apiserver", "hub-encryption", "hub-etcd-client", "hub-front-proxy-client", "hub-service-account"},
		managerObject: {"hub-client-ca", "hub-controller-manager", "hub-service-account"},
	} {
		var secrets []string
		for _, volume := range podOf(t, objects[workload]).Volumes {
			switch {
			case volume.Secret != nil:
				secrets = append(secrets, volume.Secret.SecretName)
			case volume.ConfigMap == nil:
				t.Errorf("%s has volume %s, which is neither a Secret nor a ConfigMap", workload, volume.Name)
			}
		}
		slices.Sort(secrets)
		if !slices.Equal(secrets, want) {
			t.Errorf("%s reads the Secrets %v, want %v", workload, secrets, want)
		}
	}
}

// TestTheProgramsHaveNoWayIntoTheHost looks at flags that would give one of them
// a credential for the host, or another way to it.
func TestTheProgramsHaveNoWayIntoTheHost(t *testing.T) {
	objects := rendered(t, plane(everything))
	flags := func(workload string) map[string]string {
		found := map[string]string{}
		for _, flag := range podOf(t, objects[workload]).Containers[0].Command[1:] {
			name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
			found[name] = value
		}
		return found
	}
	for workload, never := range map[string][]string{
		serverObject: {
			"kubelet-client-certificate", "kubelet-client-key", "kubelet-certificate-authority", // a credential for nodes/proxy
			"egress-selector-config-file", "admission-control-config-file", // connections of another kind, credentials for webhooks
			"token-auth-file", "authentication-token-webhook-config-file", "authorization-webhook-config-file",
			"cloud-provider", "cloud-config",
		},
		managerObject: {
			"cluster-signing-cert-file", "cluster-signing-key-file", // any signer, not just that of clients
			"cluster-signing-kubelet-serving-cert-file", "cluster-signing-legacy-unknown-cert-file", "cluster-signing-kubelet-client-cert-file",
			"cloud-provider", "cloud-config", "allocate-node-cidrs",
		},
		etcdObject: {"auto-tls", "peer-auto-tls", "enable-grpc-gateway", "listen-client-http-urls"},
	} {
		for _, name := range never {
			if value, there := flags(workload)[name]; there {
				t.Errorf("%s has --%s=%s", workload, name, value)
			}
		}
	}
	for workload, always := range map[string]map[string]string{
		serverObject: {
			"authorization-mode": "RBAC", "enable-aggregator-routing": "false", "requestheader-allowed-names": frontProxyUser,
			"requestheader-client-ca-file": pkiDir + "/front-proxy-ca/ca-bundle.crt", "client-ca-file": pkiDir + "/client-ca/ca-bundle.crt",
			"etcd-cafile": pkiDir + "/etcd-ca/ca-bundle.crt", "profiling": "false",
		},
		managerObject: {"profiling": "false"},
		etcdObject: {
			"client-cert-auth": "true", "trusted-ca-file": pkiDir + "/etcd-ca/ca-bundle.crt",
			"peer-client-cert-auth": "true", "peer-trusted-ca-file": pkiDir + "/etcd-ca/ca-bundle.crt", "peer-cert-allowed-cn": etcdMemberUser,
		},
	} {
		for name, want := range always {
			if got := flags(workload)[name]; got != want {
				t.Errorf("%s has --%s=%s, want %s", workload, name, got, want)
			}
		}
	}
}

// place is where a connection comes from or goes to.
type place struct {
	namespace string
	labels    map[string]string
	// address is that of a place which is no pod.
	address string
}

// TestPodsConnectToWhatTheyNeedOnly asks the NetworkPolicies as a network that
// enforces them does.
func TestPodsConnectToWhatTheyNeedOnly(t *testing.T) {
	p := plane(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.NetworkPolicies.Egress = []fleetv1alpha1.ControlPlaneEgress{{CIDR: "192.0.2.10/32", Port: 4443}}
	})
	component := func(name string) place { return place{namespace: p.Namespace, labels: p.PodLabels(name)} }
	var (
		etcd, server, manager = component(Etcd), component(APIServer), component(ControllerManager)
		otherHub              = place{namespace: p.Namespace, labels: Plane{Name: "other"}.PodLabels(APIServer)}
		neighbour             = place{namespace: p.Namespace, labels: map[string]string{"app": "x"}}
		webhook               = place{namespace: "hub", labels: map[string]string{"app": "webhook"}}
		stranger              = place{namespace: "shop", labels: map[string]string{"app": "db"}}
		metadata              = place{address: "169.254.169.254"}
		node                  = place{address: "198.51.100.1"}
		named                 = place{address: "192.0.2.10"}
	)
	policies := policiesOf(t, p)
	for name, test := range map[string]struct {
		from, to place
		port     int32
		want     bool
	}{
		"TheAPIServerStores":             {server, etcd, EtcdClientPort, true},
		"MembersMeet":                    {etcd, etcd, etcdPeerPort, true},
		"TheAPIServerIsNoMember":         {server, etcd, etcdPeerPort, false},
		"TheControllerManagerStoresNot":  {manager, etcd, EtcdClientPort, false},
		"ANeighbourStoresNot":            {neighbour, etcd, EtcdClientPort, false},
		"AnotherHubStoresNot":            {otherHub, etcd, EtcdClientPort, false},
		"AStrangerStoresNot":             {stranger, etcd, EtcdClientPort, false},
		"ANodeStoresNot":                 {node, etcd, EtcdClientPort, false},
		"TheControllerManagerAsks":       {manager, server, fleetv1alpha1.ControlPlanePort, true},
		"EverybodyAsks":                  {stranger, server, fleetv1alpha1.ControlPlanePort, true},
		"NobodyAsksTheControllerManager": {neighbour, manager, controllerManagerPort, false},
		"Webhooks":                       {server, webhook, 9443, true},
		"TheAggregatedAPIServer":         {server, webhook, 8443, true},
		"OtherPortsBesideThem":           {server, webhook, 443, false},
		"WebhooksOfStrangers":            {server, stranger, 9443, false},
		"TheMetadataOfTheCloud":          {server, metadata, 80, false},
		"TheMetadataOfTheCloudByTLS":     {server, metadata, 443, false},
		"TheKubelet":                     {server, node, 10250, false},
		"TheAPIServerOfTheHost":          {server, node, 6443, false},
		"WhatTheSpecNames":               {server, named, 4443, true},
		"AnotherPortOfWhatTheSpecNames":  {server, named, 443, false},
		"EtcdConnectsToNobody":           {etcd, stranger, 443, false},
		"TheControllerManagerToNobody":   {manager, metadata, 80, false},
		"NameServers":                    {server, node, 53, true}, // nobody knows where they are
	} {
		t.Run(name, func(t *testing.T) {
			if got := policies.allow(test.from, test.to, test.port); got != test.want {
				t.Errorf("the connection is allowed: %t, want %t", got, test.want)
			}
		})
	}
}

// policies are NetworkPolicies, and how a network reads them.
type policies []networkingv1.NetworkPolicy

func policiesOf(t *testing.T, p Plane) policies {
	t.Helper()
	var list policies
	objects := rendered(t, p)
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if objects[name].GetKind() != "NetworkPolicy" {
			continue
		}
		policy := networkingv1.NetworkPolicy{}
		expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(objects[name].Object, &policy))
		list = append(list, policy)
	}
	return list
}

// allow reports whether a TCP connection is allowed at both of its ends: a pod that
// a policy selects has only the connections of its rules.
func (l policies) allow(from, to place, port int32) bool {
	out, in := true, true
	for _, policy := range l {
		pods := labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels)
		selects := func(at place) bool { return at.namespace == policy.Namespace && pods.Matches(labels.Set(at.labels)) }
		if selects(from) {
			out = slices.ContainsFunc(policy.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
				return hasPort(rule.Ports, port) && hasPeer(policy.Namespace, rule.To, to)
			})
		}
		if selects(to) {
			in = slices.ContainsFunc(policy.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
				return hasPort(rule.Ports, port) && hasPeer(policy.Namespace, rule.From, from)
			})
		}
	}
	return out && in
}

func hasPort(ports []networkingv1.NetworkPolicyPort, port int32) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		return *p.Protocol == corev1.ProtocolTCP && p.Port.IntVal == port
	})
}

func hasPeer(namespace string, peers []networkingv1.NetworkPolicyPeer, at place) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		switch {
		case peer.IPBlock != nil:
			return at.address != "" && peer.IPBlock.CIDR == at.address+"/32"
		case at.address != "":
			return false
		case peer.NamespaceSelector != nil:
			return peer.PodSelector == nil && peer.NamespaceSelector.MatchLabels[corev1.LabelMetadataName] == at.namespace
		default:
			return at.namespace == namespace && labels.SelectorFromSet(peer.PodSelector.MatchLabels).Matches(labels.Set(at.labels))
		}
	})
}
