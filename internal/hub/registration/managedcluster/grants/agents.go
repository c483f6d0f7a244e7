// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package grants

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

// The permissions of a cluster are for the agents that were given a certificate
// since its ManagedCluster was created, each by its name, and not for the group
// that is in all certificates of the cluster: a certificate outlives the
// ManagedCluster, and whoever has it would be let in again when the name is.

// AgentSubjects returns the agents of a cluster as subjects. One that authenticates
// through AWS has no certificate and is known by its group.
func AgentSubjects(cluster string, agents policy.AgentNames) []rbacv1.Subject {
	var subjects []rbacv1.Subject
	if agents.HasAnyAgent() {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterv1.AgentGroup(cluster)})
	}
	for _, name := range agents.NamedAgents() {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: clusterv1.AgentUser(cluster, name)})
	}
	return append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterv1.GroupAWSPrefix + cluster})
}

// annotationManagedCluster on the ClusterRoleBinding of a cluster has the UID of
// the ManagedCluster whose agents it names. Earlier releases and hubs of OCM bind
// the group and write none.
const annotationManagedCluster = "cluster.open-cluster-management.io/managed-cluster-uid"

// BindAgents returns the ClusterRoleBinding of a cluster.
func BindAgents(mc *clusterv1.ManagedCluster, to ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	binding := ClusterRoleBinding(mc.Name, to...)
	metav1.SetMetaDataAnnotation(&binding.ObjectMeta, annotationManagedCluster, string(mc.UID))
	return binding
}

// KnownAgents returns the agents of a cluster by its annotation and its binding. Somebody
// may have removed the annotation; and the one that an earlier release wrote lacks
// the agents that a person approved, so the group that this release bound counts.
func KnownAgents(mc *clusterv1.ManagedCluster, binding *rbacv1.ClusterRoleBinding) policy.AgentNames {
	known := policy.AgentNames(mc.Annotations[clusterv1.AnnotationAgents])
	bound := boundAgents(mc, binding)
	switch {
	case known == "":
		return bound
	case bound.HasAnyAgent() && binding.Annotations[annotationManagedCluster] == "":
		return known.WithAgent(policy.AnyAgent)
	}
	return known
}

// boundAgents returns the agents that a binding names. One of an earlier cluster of that
// name, whose certificates must not count any more, names none.
func boundAgents(mc *clusterv1.ManagedCluster, binding *rbacv1.ClusterRoleBinding) policy.AgentNames {
	var agents policy.AgentNames
	switch boundFor := binding.Annotations[annotationManagedCluster]; {
	case boundFor == "" && binding.CreationTimestamp.Before(&mc.CreationTimestamp),
		boundFor != "" && boundFor != string(mc.UID):
		return agents
	}
	for _, subject := range binding.Subjects {
		if subject.Kind == rbacv1.GroupKind && subject.Name == clusterv1.AgentGroup(mc.Name) {
			agents = agents.WithAgent(policy.AnyAgent)
		}
		if name, ok := strings.CutPrefix(subject.Name, clusterv1.AgentUser(mc.Name, "")); ok && subject.Kind == rbacv1.UserKind {
			agents = agents.WithAgent(name)
		}
	}
	return agents
}
