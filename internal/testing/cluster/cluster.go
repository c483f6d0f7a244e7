// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster has what a test does on a cluster as its administrator, and what programs
// would do there that a test does not run.
package cluster

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EndNamespace does what the controller manager does for a deleted namespace.
func EndNamespace(t testing.TB, c client.Client, name string) {
	t.Helper()
	namespace := &corev1.Namespace{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, namespace); err != nil || namespace.DeletionTimestamp.IsZero() {
		return
	}
	for _, list := range []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}} {
		if err := c.DeleteAllOf(t.Context(), list, client.InNamespace(name)); err != nil {
			t.Errorf("emptying the namespace: %v", err)
		}
	}
	namespace.Spec.Finalizers = nil
	if err := c.SubResource("finalize").Update(t.Context(), namespace); client.IgnoreNotFound(err) != nil {
		t.Errorf("ending the namespace: %v", err)
	}
}

// RollOutDeployment does what the controller manager does for a Deployment: its status says that all pods are
// as the spec has them, and available.
func RollOutDeployment(ctx context.Context, c client.Client, deployment *appsv1.Deployment) error {
	n := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
	}
	return c.Status().Update(ctx, deployment) //nolint:wrapcheck // the test says what it was about
}
