// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster has what a test does on a cluster as its administrator, and what programs
// would do there that a test does not run.
package cluster

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// EndNamespaces does what Kubernetes does with all namespaces that are deleted: what is in them goes, and
// then they do themselves. Of their contents it knows what operators install, as far as the client does.
func EndNamespaces(ctx context.Context, c client.Client) error {
	namespaces := &corev1.NamespaceList{}
	if err := c.List(ctx, namespaces); err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	for i := range namespaces.Items {
		namespace := &namespaces.Items[i]
		if namespace.DeletionTimestamp.IsZero() {
			continue
		}
		for _, kind := range []schema.GroupVersionKind{
			appsv1.SchemeGroupVersion.WithKind("Deployment"), corev1.SchemeGroupVersion.WithKind("Pod"),
			corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
			corev1.SchemeGroupVersion.WithKind("ServiceAccount"), rbacv1.SchemeGroupVersion.WithKind("Role"),
			rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		} {
			object := &metav1.PartialObjectMetadata{}
			object.SetGroupVersionKind(kind)
			err := c.DeleteAllOf(ctx, object, client.InNamespace(namespace.Name), client.GracePeriodSeconds(0))
			if err != nil && !meta.IsNoMatchError(err) {
				return fmt.Errorf("emptying namespace %q of each %s: %w", namespace.Name, kind.Kind, err)
			}
		}
		namespace.Spec.Finalizers = nil
		if err := c.SubResource("finalize").Update(ctx, namespace); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("ending namespace %q: %w", namespace.Name, err)
		}
	}
	return nil
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
