// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
)

// push tells whether the push agent works for the cluster.
func (w *writer) push(ctx context.Context, name string) (bool, error) {
	connection, err := w.connection(ctx, name)
	return connection != nil && connection.Spec.SyncMode == fleetv1alpha1.SyncModePush, err
}

// to gives a binding to the push agent instead of the cluster's own agents:
// one side only works for a cluster.
func (w *writer) to(push bool, binding *rbacv1.RoleBinding) *rbacv1.RoleBinding {
	if push {
		binding.Subjects = []rbacv1.Subject{grants.PushAgent(w.ownNamespace)}
	}
	return binding
}

// own makes sure of the cluster's own role and its binding.
func (w *writer) own(ctx context.Context, name string, accepted, push bool) error {
	if err := w.ensure(ctx, clusterRole(w.limited(grants.ClusterRole(name, accepted)))); err != nil {
		return err
	}
	binding := grants.ClusterRoleBinding(name)
	if push {
		binding.Subjects = []rbacv1.Subject{grants.PushAgent(w.ownNamespace)}
	}
	return w.ensure(ctx, clusterRoleBinding(binding))
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
