// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package build makes the objects that tests put into clusters.
package build

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UserSubject is a user whom a binding is for.
func UserSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

// GroupSubject is a group that a binding is for.
func GroupSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

// AccountSubject is a ServiceAccount that a binding is for.
func AccountSubject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// ClusterRole allows what the rules say.
func ClusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

// ClusterRoleBinding gives a ClusterRole to subjects, everywhere.
func ClusterRoleBinding(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

// NamespacedRole allows what the rules say in its namespace.
func NamespacedRole(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

// RoleBinding gives a role of the namespace to subjects.
func RoleBinding(namespace, name, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	}
}

// ClusterRoleBindingIn gives a ClusterRole to subjects, in a namespace.
func ClusterRoleBindingIn(namespace, name, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	binding := RoleBinding(namespace, name, role, subjects...)
	binding.RoleRef.Kind = "ClusterRole"
	return binding
}

// AccessRule is one for resources of a group.
func AccessRule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}
