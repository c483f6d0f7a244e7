// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// The time between attempts to hear of roles and bindings doubles from the
// first to the last.
const (
	followAgainMin = time.Second
	followAgainMax = time.Minute
)

// permissions returns the resources that say who may do what.
func permissions() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		rbacv1.SchemeGroupVersion.WithResource("roles"),
		rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
		rbacv1.SchemeGroupVersion.WithResource("clusterroles"),
		rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"),
	}
}

func serviceAccounts() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
}

// follow forgets decisions when objects of the resource change, until ctx
// ends. Nothing of the objects is kept, so it costs no memory however many
// there are; who is in a binding is thus not known, and all decisions that it
// could be about are forgotten.
func (k *keeper) follow(ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource) {
	failed := func(what string, err error) error {
		if err == nil {
			return nil
		}
		k.hear(resource.Resource, false)
		return fmt.Errorf("%s %s: %w", what, resource.GroupResource(), err)
	}
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			objects, err := client.Resource(resource).List(ctx, options)
			return objects, failed("listing", err)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := client.Resource(resource).Watch(ctx, options)
			if err == nil {
				k.hear(resource.Resource, true)
			}
			return events, failed("watching", err)
		},
	}, &metav1.PartialObjectMetadata{}, &ear{keeper: k, resource: resource.Resource}, cache.ReflectorOptions{
		Name: "permissions " + resource.Resource,
		Backoff: &wait.Backoff{
			Duration: followAgainMin, Factor: 2, Jitter: 0.5, Steps: 7, Cap: followAgainMax,
		},
	})
	reflector.RunWithContext(ctx)
}

// ear is what a reflector tells of changes. It stores nothing.
type ear struct {
	keeper   *keeper
	resource string
}

func (e *ear) Add(item any) error    { return e.heard(item) }
func (e *ear) Update(item any) error { return e.heard(item) }
func (e *ear) Delete(item any) error { return e.heard(item) }
func (e *ear) Resync() error         { return nil }

// Replace comes with each list: at first, and after changes may have been missed.
func (e *ear) Replace([]any, string) error {
	e.keeper.forget("")
	return nil
}

func (e *ear) heard(item any) error {
	object, ok := item.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("watching %s: got a %T", e.resource, item)
	}
	e.keeper.forget(object.Namespace)
	return nil
}
