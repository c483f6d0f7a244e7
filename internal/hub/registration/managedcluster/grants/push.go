// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package grants

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// The push agent gets for a Push cluster what the cluster's own agents have,
// and the Secret with the credential, by a role that the hub may bind but does
// not hold itself.
//
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames="open-cluster-management:push-agent:credentials",verbs=bind

// PushAgent returns the push agent, which runs in the namespace, as a subject.
func PushAgent(namespace string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: fleetv1alpha1.PushAgentServiceAccount}
}

// CredentialsRoleBindingName returns the name of the binding by which the push
// agent may use the Secret with the credential for a cluster.
func CredentialsRoleBindingName(cluster string) string { return namePrefix + cluster + ":credentials" }

// CredentialsRoleBinding binds the role for that Secret to the push agent, which
// runs in the namespace.
func CredentialsRoleBinding(cluster, namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: CredentialsRoleBindingName(cluster), Labels: clusterLabels(cluster)},
		RoleRef:    roleRef(fleetv1alpha1.PushCredentialsRole),
		Subjects:   []rbacv1.Subject{PushAgent(namespace)},
	}
}
