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

// push tells whether the push agent works for the cluster.
func (w *writer) push(ctx context.Context, name string) (bool, error) {
	connection, err := w.connection(ctx, name)
	return connection != nil && connection.Spec.SyncMode == fleetv1alpha1.SyncModePush, err
}

// subjects returns who gets the permissions of a cluster: the push agent, or the
// agents that are noted. Only one side works for a cluster.
func (w *writer) subjects(mc *clusterv1.ManagedCluster, push bool) []rbacv1.Subject {
	if push {
		return []rbacv1.Subject{grants.PushAgent(w.ownNamespace)}
	}
	return grants.Agents(mc.Name, policy.Agents(mc.Annotations[clusterv1.AnnotationAgents]))
}

// accepted says what acceptance has given the cluster.
func (w *writer) accepted(ctx context.Context, mc *clusterv1.ManagedCluster) (string, error) {
	push, err := w.push(ctx, mc.Name)
	switch agents := policy.Agents(mc.Annotations[clusterv1.AnnotationAgents]); {
	case push:
	case agents == "":
		return "the hub accepts the cluster; no certificate request of its agent has been approved yet", err
	case agents.Any():
		return fmt.Sprintf("the hub accepts the cluster; every agent with a certificate for it has its permissions, as annotation %s has %q",
			clusterv1.AnnotationAgents, policy.AnyAgent), err
	}
	return "the hub accepts the cluster; its agent has its permissions", err
}

// own makes sure of the cluster's own role and its binding.
func (w *writer) own(ctx context.Context, mc *clusterv1.ManagedCluster, accepted bool, to []rbacv1.Subject) error {
	role := grants.ClusterRole(mc.Name, accepted)
	if accepted && w.customizations {
		role.Rules = append(role.Rules, grants.ReadCustomizations())
	}
	if err := w.ensure(ctx, clusterRole(w.limited(role))); err != nil {
		return err
	}
	return w.ensure(ctx, clusterRoleBinding(grants.BindAgents(mc, to...)))
}

// credentials lets the push agent use the credential for a Push cluster, and
// no other one.
func (w *writer) credentials(ctx context.Context, name string, push bool) error {
	binding := grants.CredentialsBinding(name, w.ownNamespace)
	if push {
		return w.ensure(ctx, roleBinding(binding))
	}
	return w.remove(ctx, binding)
}
