// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/install"
)

// connections begins to watch ClusterConnections once there is such a kind,
// which the operator installs itself.
type connections struct {
	mu       sync.Mutex
	watching bool
	// watch is nil if the controller was not set up with a manager.
	watch func() error
}

// ensure watches them unless it does already.
func (c *connections) ensure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watch == nil || c.watching {
		return nil
	}
	if err := c.watch(); err != nil {
		return fmt.Errorf("watching ClusterConnections: %w", err)
	}
	c.watching = true
	return nil
}

// pushClusters tells whether the hub has a Push cluster. The controller comes
// back when a ClusterConnection changes, if it runs on the hub.
func (i *installation) pushClusters(ctx context.Context, hub *install.Target) (bool, error) {
	if hub == i.management {
		if err := i.connections.ensure(); err != nil {
			return false, err
		}
	}
	list := &fleetv1alpha1.ClusterConnectionList{}
	if err := hub.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing ClusterConnections: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(c fleetv1alpha1.ClusterConnection) bool { return isPush(&c) }), nil
}

func isPush(connection *fleetv1alpha1.ClusterConnection) bool {
	return connection.Spec.SyncMode == fleetv1alpha1.SyncModePush
}

// watchConnections returns a function that makes all hubs be looked at when a
// Push cluster comes or goes.
func (c *Controller) watchConnections(running controller.TypedController[reconcile.Request], from cache.Cache) func() error {
	all := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, object *fleetv1alpha1.ClusterConnection) []reconcile.Request {
		return c.allHubs(ctx, object)
	})
	return func() error {
		return running.Watch(source.Kind(from, &fleetv1alpha1.ClusterConnection{}, all,
			predicate.TypedFuncs[*fleetv1alpha1.ClusterConnection]{
				CreateFunc: func(e event.TypedCreateEvent[*fleetv1alpha1.ClusterConnection]) bool { return isPush(e.Object) },
				DeleteFunc: func(e event.TypedDeleteEvent[*fleetv1alpha1.ClusterConnection]) bool { return isPush(e.Object) },
				UpdateFunc: func(e event.TypedUpdateEvent[*fleetv1alpha1.ClusterConnection]) bool {
					return isPush(e.ObjectOld) != isPush(e.ObjectNew)
				},
			}))
	}
}
