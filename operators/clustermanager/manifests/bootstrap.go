// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
)

// ConfigMaps that tell those who want to join how to trust the API server.
const (
	// clusterInfoConfigMap has its address and CA, by the convention of kubeadm.
	clusterInfoConfigMap = "cluster-info"
	// rootCAConfigMap has its CA, in every namespace. "clusteradm join" reads it
	// where there is no cluster-info and no file is given.
	rootCAConfigMap = "kube-root-ca.crt"
)

// bootstrapBinding gives the bootstrap identities their role.
const bootstrapBinding = "open-cluster-management:bootstrap:agent-registration"

// defaultExecutor is the identity as which works run that name no executor.
const defaultExecutor = "system:serviceaccount::klusterlet-work-sa"

// BootstrapAccess returns the identity with which agents register, and what it and
// the holders of bootstrap tokens may do.
func BootstrapAccess(h Hub) []render.Object {
	account := render.AccountSubject(h.bootstrapNamespace(), operatorv1.BootstrapServiceAccount)
	group := render.GroupSubject(clusterv1.GroupBootstrappers)
	cluster := func(name string) render.ResourceMeta { return h.resourceMeta(name).InNamespace("") }
	clusterInfo := h.resourceMeta(operatorv1.BootstrapClusterRole).InNamespace(metav1.NamespacePublic)
	caBundle := h.resourceMeta(operatorv1.BootstrapClusterRole)
	objects := []render.Object{
		render.ServiceAccount(h.resourceMeta(operatorv1.BootstrapServiceAccount).InNamespace(h.bootstrapNamespace())),
		render.ClusterRole(cluster(operatorv1.BootstrapClusterRole), bootstrapRules(h.Registration.Enabled(features.StrictBootstrap))),
		render.ClusterRoleBinding(cluster(bootstrapBinding), operatorv1.BootstrapClusterRole, account, group),
		// ConfigMaps by name only: a bootstrap credential is in many hands.
		render.Role(clusterInfo, configMapRule(clusterInfoConfigMap, rootCAConfigMap)),
		render.RoleBinding(clusterInfo.WithName(bootstrapBinding), operatorv1.BootstrapClusterRole, account, group),
	}
	if h.IsHosted() {
		return objects // the bundle is not on the hub
	}
	return append(objects,
		render.Role(caBundle, configMapRule(operatorv1.CABundleConfigMap)),
		render.RoleBinding(caBundle.WithName(bootstrapBinding), operatorv1.BootstrapClusterRole, account, group))
}

// bootstrapRules returns what is needed to ask to join. Agents of OCM check for
// list and watch before they start; with strict these are taken away.
func bootstrapRules(strict bool) []rbacv1.PolicyRule {
	verbs := []string{"create", "get", "list", "watch"}
	if strict {
		verbs = []string{"create", "get"}
	}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"}, Verbs: verbs},
		{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"managedclusters"}, Verbs: verbs},
		{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{clusterv1.JoinResource}, Verbs: []string{"create"}},
	}
}

func configMapRule(names ...string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names, Verbs: []string{"get"},
	}}
}

// executorAdmin lets those who administrate a cluster's namespace make works
// that run as the agent itself, which matters with the gate
// NilExecutorValidating.
func executorAdmin(h Hub) render.Object {
	m := h.resourceMeta(h.roleName("work-executor-admin:webhook")).InNamespace("").
		WithLabels(map[string]string{"rbac.authorization.k8s.io/aggregate-to-admin": "true"})
	return render.ClusterRole(m, []rbacv1.PolicyRule{{
		APIGroups: []string{workv1.GroupVersion.Group}, Resources: []string{"manifestworks"},
		ResourceNames: []string{defaultExecutor}, Verbs: []string{workv1.ExecuteAsVerb},
	}})
}

// labelFlag returns the labels as KEY=VALUE, sorted and joined by commas.
func labelFlag(labels map[string]string) string {
	var list []string
	for key, value := range labels {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
