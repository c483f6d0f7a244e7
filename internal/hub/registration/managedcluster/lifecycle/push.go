// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

// isPushCluster reports whether the push agent works for the cluster.
func (w *clusterWriter) isPushCluster(ctx context.Context, name string) (bool, error) {
	connection, err := w.getConnection(ctx, name)
	return connection != nil && connection.Spec.SyncMode == fleetv1alpha1.SyncModePush, err
}

// agentSubjects returns who gets the permissions of a cluster: the push agent, or the
// agents that are noted. Only one side works for a cluster.
func (w *clusterWriter) agentSubjects(mc *clusterv1.ManagedCluster, push bool) []rbacv1.Subject {
	if push {
		return []rbacv1.Subject{grants.PushAgent(w.ownNamespace)}
	}
	return grants.AgentSubjects(mc.Name, policy.AgentNames(mc.Annotations[clusterv1.AnnotationAgents]))
}

// acceptedMessage says what acceptance has given the cluster.
func (w *clusterWriter) acceptedMessage(ctx context.Context, mc *clusterv1.ManagedCluster) (string, error) {
	push, err := w.isPushCluster(ctx, mc.Name)
	switch agents := policy.AgentNames(mc.Annotations[clusterv1.AnnotationAgents]); {
	case push:
	case agents == "":
		return "the hub accepts the cluster; no certificate request of its agent has been approved yet", err
	case agents.HasAnyAgent():
		return fmt.Sprintf("the hub accepts the cluster; every agent with a certificate for it has its permissions, as annotation %s has %q",
			clusterv1.AnnotationAgents, policy.AnyAgent), err
	}
	return "the hub accepts the cluster; its agent has its permissions", err
}

// ensureOwnRole makes sure of the cluster's own role and its binding.
func (w *clusterWriter) ensureOwnRole(ctx context.Context, mc *clusterv1.ManagedCluster, accepted bool, to []rbacv1.Subject) error {
	role := grants.ClusterRole(mc.Name, accepted)
	if accepted && w.customizations {
		role.Rules = append(role.Rules, grants.CustomizationReaderRule())
	}
	if err := w.ensureObject(ctx, desiredClusterRole(w.limitRole(role))); err != nil {
		return err
	}
	return w.ensureObject(ctx, desiredClusterRoleBinding(grants.BindAgents(mc, to...)))
}

// ensureCredentials lets the push agent use the credential for a Push cluster, and
// no other one.
func (w *clusterWriter) ensureCredentials(ctx context.Context, name string, push bool) error {
	binding := grants.CredentialsRoleBinding(name, w.ownNamespace)
	if push {
		return w.ensureObject(ctx, desiredRoleBinding(binding))
	}
	return w.removeObject(ctx, binding)
}
