// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

const (
	// hubVolume has the kubeconfig of the hub, at hubDir.
	hubVolume = "hub-kubeconfig"
	hubDir    = "/var/run/secrets/hub"

	// HubToken is the file that the kubeconfig of the hub has to name for the token
	// of a component.
	HubToken = hubDir + "/" + operatorv1.TokenKey

	// hubHashAnnotation on pods rolls them when the kubeconfig changes, which they
	// read once. A new token alone changes nothing.
	hubHashAnnotation = "capstan.io/hub-kubeconfig-hash"

	// managementRole begins the names of roles on the cluster that the pods run on,
	// which may be the hub itself, with roles of its own.
	managementRole = "open-cluster-management:management:"

	// serverPortName makes the port of a Service find that of its EndpointSlice.
	serverPortName = "webhook"
	// sliceManager is who EndpointSlices say they are managed by.
	sliceManager = "capstan"
)

// HubSecret returns the name of the secret with the kubeconfig of the hub for a
// ServiceAccount.
func HubSecret(account string) string { return account + operatorv1.HubKubeConfigSecretSuffix }

// hostedWorkload lets the workload of a component work on the hub from another cluster.
func (h Hub) hostedWorkload(c HubComponent) render.Workload {
	w := c.Workload
	flags := []string{"--kubeconfig=" + hubDir + "/" + operatorv1.KubeConfigKey}
	if c.APIServer == nil { // which elects no leader
		flags = append(flags, "--hosted")
	}
	mount := render.VolumeMount(hubVolume, hubDir, true)
	w.Args = slices.Concat(w.Args, flags)
	w.Volumes = append(slices.Clone(w.Volumes), render.SecretVolume(hubVolume, HubSecret(w.ServiceAccount), false))
	w.Mounts = append(slices.Clone(w.Mounts), mount)
	w.Sidecars = slices.Clone(w.Sidecars)
	for i := range w.Sidecars {
		w.Sidecars[i].Args = slices.Concat(w.Sidecars[i].Args, flags)
		w.Sidecars[i].Mounts = append(slices.Clone(w.Sidecars[i].Mounts), mount)
	}
	w.PodAnnotations = map[string]string{hubHashAnnotation: h.Kubeconfigs[w.ServiceAccount]}
	return w
}

// HomeAccess returns, for mode Hosted, the ServiceAccounts that the components
// run as, and what they may do where they run: nothing but what has to do with
// themselves. It is nothing in mode Default, as ComponentAccess has it all.
func HomeAccess(h Hub, rules ComponentRules) ([]render.Object, error) {
	if !h.IsHosted() {
		return nil, nil
	}
	var objects []render.Object
	for _, c := range HubComponents(h) {
		cluster, namespaced, err := rules(c.RBAC)
		if err != nil {
			return nil, err
		}
		if c.APIServer != nil {
			cluster = nil // it asks the hub about everybody, also those who read its metrics
		}
		name := managementRole + h.Name + "-" + c.Workload.Container
		account := render.AccountSubject(h.Namespace(), c.Workload.ServiceAccount)
		objects = append(objects, render.ServiceAccount(h.resourceMeta(c.Workload.ServiceAccount)))
		if asked := askedAtHome(cluster); len(asked) > 0 {
			objects = append(objects,
				render.ClusterRole(h.resourceMeta(name).InNamespace(""), asked),
				render.ClusterRoleBinding(h.resourceMeta(name).InNamespace(""), name, account))
		}
		if len(namespaced) > 0 {
			objects = append(objects,
				render.Role(h.resourceMeta(name), namespaced),
				render.RoleBinding(h.resourceMeta(name), name, account))
		}
	}
	return objects, nil
}

// askedAtHome returns those of a component's rules that it needs on the cluster
// that its pods run on, too: to know who reads its metrics, and which networks
// are not those of members.
func askedAtHome(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var asked []rbacv1.PolicyRule
	for _, rule := range rules {
		switch {
		case len(rule.Resources) != 1:
		case rule.Resources[0] == "tokenreviews", rule.Resources[0] == "subjectaccessreviews", rule.Resources[0] == "servicecidrs":
			asked = append(asked, rule)
		}
	}
	return asked
}

// serviceByAddress returns the Service of a server that is not on the
// hub: another name for it, or an address instead of pods.
func serviceByAddress(h Hub, server ComponentServer) []render.Object {
	m := h.resourceMeta(server.Service)
	spec := corev1ac.ServiceSpec().WithPorts(corev1ac.ServicePort().
		WithName(serverPortName).WithProtocol(corev1.ProtocolTCP).WithPort(server.ServicePort))
	service := corev1ac.Service(m.Name, m.Namespace).WithLabels(m.Labels)
	if net.ParseIP(server.Address) == nil {
		return []render.Object{service.WithSpec(spec.WithType(corev1.ServiceTypeExternalName).WithExternalName(server.Address))}
	}
	return []render.Object{
		service.WithSpec(spec.WithType(corev1.ServiceTypeClusterIP)),
		discoveryv1ac.EndpointSlice(m.Name, m.Namespace).
			WithLabels(m.Labels).
			WithLabels(map[string]string{discoveryv1.LabelServiceName: m.Name, discoveryv1.LabelManagedBy: sliceManager}).
			WithAddressType(discoveryv1.AddressTypeIPv4).
			WithEndpoints(discoveryv1ac.Endpoint().
				WithAddresses(server.Address).
				WithConditions(discoveryv1ac.EndpointConditions().WithReady(true))).
			WithPorts(discoveryv1ac.EndpointPort().
				WithName(serverPortName).WithProtocol(corev1.ProtocolTCP).WithPort(server.ServicePort)),
	}
}
