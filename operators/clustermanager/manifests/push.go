// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	rbacv1 "k8s.io/api/rbac/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// pushAgent is there if its rules can be granted, and runs only while there is
// a Push cluster. It
// is our own image whatever the spec says: nobody else has it.
func pushAgent(h Hub) HubComponent {
	w := h.baseWorkload("push-agent", h.OwnImage)
	w.ServiceAccount = fleetv1alpha1.PushAgentServiceAccount
	w.Args = append([]string{"/capstan-manager", "push-agent"}, h.TLSFlags...)
	if h.MetricsPerCluster {
		w.Args = append(w.Args, "--metrics-per-cluster")
	}
	if !h.PushClusters {
		w.Replicas = 0
	}
	return HubComponent{RBAC: config.PushAgent, Role: h.roleName("push-agent"), Workload: w, MetricsPort: metricsPort}
}

// pushCredentials lets the push agent read the Secret of this one name and
// renew the token in it, in the namespaces in which the hub binds it.
func pushCredentials(h Hub) render.Object {
	return render.ClusterRole(h.resourceMeta(fleetv1alpha1.PushCredentialsRole).InNamespace(""), PushCredentialsRules())
}

// PushCredentialsRules are what the push agent may do with the credential of a
// Push cluster.
func PushCredentialsRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{fleetv1alpha1.DefaultSecretName},
		Verbs: []string{"get", "list", "watch", "patch"},
	}}
}
