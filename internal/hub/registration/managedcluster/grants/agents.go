// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package grants

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/csr/policy"
)

// The permissions of a cluster are for the agents that were given a certificate
// since its ManagedCluster was created, each by its name, and not for the group
// that is in all certificates of the cluster: a certificate outlives the
// ManagedCluster, and whoever has it would be let in again when the name is.

// Agents returns the agents of a cluster as subjects. One that authenticates
// through AWS has no certificate and is known by its group.
func Agents(cluster string, agents policy.Agents) []rbacv1.Subject {
	var subjects []rbacv1.Subject
	if agents == policy.AnyAgent {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterv1.AgentGroup(cluster)})
	}
	for _, name := range agents.Names() {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: clusterv1.AgentUser(cluster, name)})
	}
	return append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterv1.GroupAWSPrefix + cluster})
}

// Bound returns the agents that a binding of the cluster names: AnyAgent for one
// that an earlier release made, or a hub of OCM. One that is older than the
// ManagedCluster is of an earlier cluster of that name and names none.
func Bound(mc *clusterv1.ManagedCluster, binding *rbacv1.ClusterRoleBinding) policy.Agents {
	var agents policy.Agents
	if binding.CreationTimestamp.Before(&mc.CreationTimestamp) {
		return agents
	}
	for _, subject := range binding.Subjects {
		if subject.Kind == rbacv1.GroupKind && subject.Name == clusterv1.AgentGroup(mc.Name) {
			return policy.AnyAgent
		}
		if name, ok := strings.CutPrefix(subject.Name, clusterv1.AgentUser(mc.Name, "")); ok && subject.Kind == rbacv1.UserKind {
			agents = agents.With(name)
		}
	}
	return agents
}
