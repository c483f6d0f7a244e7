// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// removeShared removes what all Klusterlets have in common, together with the
// last of them. The definitions stay: deleting one deletes the users' objects.
func (c *Controller) removeShared(ctx context.Context, p *pass) error {
	others, err := c.others(ctx, p.klusterlet)
	if err != nil || len(others) > 0 {
		return err
	}
	errs := []error{c.removePullSecrets(ctx), c.releaseDefinitions(ctx)}
	for _, target := range []struct {
		kind schema.GroupVersionKind
		name string
	}{
		{rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), manifests.AggregateRole},
		{rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), manifests.ExecutionRole},
		{corev1.SchemeGroupVersion.WithKind("Namespace"), operatorv1.DefaultAddOnNamespace},
	} {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(target.kind)
		object.Name = target.name
		if err := c.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting %s %q: %w", target.kind.Kind, target.name, err))
		}
	}
	return errors.Join(errs...)
}

// removePullSecrets deletes the copies of the pull secret in the namespaces of
// add-ons, which stay if their users made them.
func (c *Controller) removePullSecrets(ctx context.Context) error {
	if c.Settings.PullSecret == "" {
		return nil
	}
	addons := &corev1.NamespaceList{}
	if err := c.Client.List(ctx, addons, client.MatchingLabels{operatorv1.LabelAddOnNamespace: "true"}); err != nil {
		return fmt.Errorf("listing the namespaces of add-ons: %w", err)
	}
	var errs []error
	for i := range addons.Items {
		if addons.Items[i].Name == c.Settings.Namespace {
			continue // the source of the copies
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: addons.Items[i].Name, Name: c.Settings.PullSecret}}
		if err := c.Client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting secret %q: %w", client.ObjectKeyFromObject(secret), err))
		}
	}
	return errors.Join(errs...)
}
