// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

func (c *Controller) namespace(ctx context.Context, p *pass) error {
	if err := p.install(ctx, c.home.applier, manifests.Namespaces(p.hub)); err != nil || p.site == c.home {
		return err
	}
	return p.install(ctx, p.site.applier, manifests.Namespaces(p.hub))
}

// access installs the identities of the components with what they may do.
func (c *Controller) access(ctx context.Context, p *pass) error {
	objects, err := manifests.Access(p.hub, c.rules)
	if err != nil {
		return fmt.Errorf("reading the rules of the components: %w", err)
	}
	if err := p.install(ctx, p.site.applier, objects); err != nil {
		return err
	}
	own, err := manifests.HomeAccess(p.hub, c.rules)
	if err != nil {
		return fmt.Errorf("reading the rules of the components: %w", err)
	}
	return p.install(ctx, c.home.applier, own)
}

// bootstrap installs the identity that agents register with.
func (c *Controller) bootstrap(ctx context.Context, p *pass) error {
	return p.install(ctx, p.site.applier, manifests.Bootstrap(p.hub))
}

func (c *Controller) services(ctx context.Context, p *pass) error {
	return p.install(ctx, p.site.applier, manifests.Services(p.hub))
}

func (c *Controller) networkPolicies(ctx context.Context, p *pass) error {
	return p.install(ctx, c.home.applier, manifests.NetworkPolicies(p.hub))
}

// pullSecret copies the pull secret to the hub's namespace, or removes the copy
// when the original is gone.
func (c *Controller) pullSecret(ctx context.Context, p *pass) error {
	name := c.options.PullSecret
	if name == "" || c.options.Namespace == p.hub.Namespace() {
		p.hub.PullSecret = name
		return nil
	}
	source := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.options.Namespace, Name: name}
	err := c.client.Get(ctx, key, source)
	if apierrors.IsNotFound(err) {
		return c.dropSecret(ctx, p, name)
	}
	if err != nil {
		return fmt.Errorf("reading the pull secret %q: %w", key, err)
	}
	m := render.Meta{Name: name, Namespace: p.hub.Namespace(), Labels: p.hub.Owner()}
	// Read past the cache, which has no secrets of the hub.
	applier := render.NewApplier(c.client, c.reader, FieldOwner)
	if _, err := applier.Apply(ctx, render.SecretCopy(m, source)); err != nil {
		return err
	}
	p.hub.PullSecret = name
	return nil
}

// installedKinds are the kinds of which leftovers are looked for, in the order
// of their removal: first what would block or restart others.
func installedKinds() []schema.GroupVersionKind {
	admission := admissionv1.SchemeGroupVersion
	rbac := rbacv1.SchemeGroupVersion
	return []schema.GroupVersionKind{
		admission.WithKind("MutatingWebhookConfiguration"),
		admission.WithKind("ValidatingWebhookConfiguration"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		rbac.WithKind("ClusterRoleBinding"),
		rbac.WithKind("RoleBinding"),
		rbac.WithKind("ClusterRole"),
		rbac.WithKind("Role"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	}
}

// hubKinds are those of them that are on a hub which the operator does not run on,
// and what only such a hub has.
func hubKinds() []schema.GroupVersionKind {
	kinds := slices.DeleteFunc(installedKinds(), func(kind schema.GroupVersionKind) bool {
		return kind.Kind == "Deployment" || kind.Kind == "NetworkPolicy"
	})
	return append(kinds, discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
}

// leftovers removes what an earlier spec or release installed.
func (c *Controller) leftovers(ctx context.Context, p *pass) error {
	_, err := c.home.applier.Prune(ctx, render.Scope{Kinds: installedKinds(), Labels: p.hub.Owner()}, p.records)
	if err != nil || p.site == c.home {
		return err
	}
	_, err = p.site.applier.Prune(ctx, render.Scope{Kinds: hubKinds(), Labels: p.hub.Owner()}, p.records)
	return err
}
