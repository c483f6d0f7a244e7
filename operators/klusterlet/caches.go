// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// CacheOptions limit the cache of the operator to what it has to do with, so
// that it does not grow with the cluster.
func CacheOptions() (cache.Options, error) {
	ours, err := labels.NewRequirement(operatorv1.LabelCreatedByKlusterlet, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("making the selector of our objects: %w", err)
	}
	marked := cache.ByObject{Label: labels.NewSelector().Add(*ours)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:          marked,
			&corev1.Pod{}:                 marked,
			&corev1.ServiceAccount{}:      marked,
			&rbacv1.ClusterRole{}:         marked,
			&rbacv1.ClusterRoleBinding{}:  marked,
			&rbacv1.Role{}:                marked,
			&rbacv1.RoleBinding{}:         marked,
			&networkingv1.NetworkPolicy{}: marked,
			&corev1.ConfigMap{}: {
				Field: fields.OneTermEqualSelector("metadata.name", operatorv1.JoinStatusConfigMap),
			},
		},
	}, nil
}

// SecretCaches have one cache for each name of a secret: a watch of one name is
// all that the operator's role allows.
type SecretCaches struct {
	byName map[string]cache.Cache
}

// NewSecretCaches adds to the manager a cache for the secrets of each name.
func NewSecretCaches(mgr manager.Manager, names ...string) (*SecretCaches, error) {
	caches := &SecretCaches{byName: map[string]cache.Cache{}}
	for _, name := range names {
		c, err := cache.New(mgr.GetConfig(), cache.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}: {Field: fields.OneTermEqualSelector("metadata.name", name)},
			},
		})
		if err != nil {
			return nil, fmt.Errorf("making a cache of secrets %q: %w", name, err)
		}
		if err := mgr.Add(c); err != nil {
			return nil, fmt.Errorf("adding the cache of secrets %q: %w", name, err)
		}
		caches.byName[name] = c
	}
	return caches, nil
}

// Get reads a secret of one of the names.
func (s *SecretCaches) Get(ctx context.Context, key types.NamespacedName, into client.Object, options ...client.GetOption) error {
	c, ok := s.byName[key.Name]
	if !ok {
		return fmt.Errorf("there is no cache of secrets %q", key.Name)
	}
	return c.Get(ctx, key, into, options...)
}

// List is not possible: it would have to read secrets of all names.
func (s *SecretCaches) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return fmt.Errorf("secrets are read by name only")
}

// Source returns the source of the requests that a change of a secret of the
// name leads to.
func (s *SecretCaches) Source(name string, to handler.TypedMapFunc[*corev1.Secret, reconcile.Request]) (source.Source, error) {
	c, ok := s.byName[name]
	if !ok {
		return nil, fmt.Errorf("there is no cache of secrets %q", name)
	}
	return source.Kind(c, &corev1.Secret{}, handler.TypedEnqueueRequestsFromMapFunc(to)), nil
}
