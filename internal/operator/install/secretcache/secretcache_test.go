// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package secretcache

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// named is a cache that has a secret of its name in each namespace.
type named struct {
	cache.Cache
	name string
}

func (n named) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	into.SetName(key.Name)
	into.SetNamespace(key.Namespace)
	into.SetLabels(map[string]string{"from": n.name})
	return nil
}

func caches(names ...string) *SecretCaches {
	all := &SecretCaches{byName: map[string]cache.Cache{}}
	for _, name := range names {
		all.byName[name] = named{name: name}
	}
	return all
}

func TestSecretsAreReadByTheirNameOnly(t *testing.T) {
	all := caches("hub-kubeconfig", "bootstrap")
	for key, known := range map[types.NamespacedName]bool{
		{Namespace: "a", Name: "hub-kubeconfig"}:          true,
		{Namespace: "b", Name: "bootstrap"}:               true,
		{Namespace: "a", Name: "admin"}:                   false,
		{Namespace: "hub-kubeconfig", Name: "bootstrap2"}: false,
		{Namespace: "a", Name: "Bootstrap"}:               false,
		{Namespace: "a"}:                                  false,
	} {
		t.Run(key.String(), func(t *testing.T) {
			secret := &corev1.Secret{}
			err := all.Get(t.Context(), key, secret)
			if known && (err != nil || secret.Labels["from"] != key.Name || secret.Namespace != key.Namespace) {
				t.Errorf("got %s/%s of cache %q, error %v", secret.Namespace, secret.Name, secret.Labels["from"], err)
			}
			if !known && (err == nil || !strings.Contains(err.Error(), `"`+key.Name+`"`)) {
				t.Errorf("error %v, want one that names the secret: that there is none would be a lie", err)
			}
			to := func(context.Context, *corev1.Secret) []reconcile.Request { return nil }
			if source, err := all.SecretSource(key.Name, to); (err == nil) != known || (source != nil) != known {
				t.Errorf("its changes are told of by %v, error %v, want to know it: %t", source, err, known)
			}
		})
	}
	if err := all.List(t.Context(), &corev1.SecretList{}); err == nil {
		t.Error("all secrets are listed")
	}
}

func TestNamesAreSorted(t *testing.T) {
	for name, tc := range map[string]struct{ has, want []string }{
		"none":        {nil, nil},
		"each once":   {[]string{"c", "a", "b", "a"}, []string{"a", "b", "c"}},
		"as in bytes": {[]string{"b", "B", "a-b", "a.b"}, []string{"B", "a-b", "a.b", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, caches(tc.has...).SecretNames()); diff != "" {
				t.Errorf("names, -want +got:\n%s", diff)
			}
		})
	}
}
