// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// connectionsPerPage is how many ClusterConnections are read at a time. Each may
// have a hundred kilobytes of what its cluster serves.
const connectionsPerPage = 200

// ListConnections returns all ClusterConnections without what their clusters
// serve, which is nearly all of them and would not fit into memory for a large
// fleet.
func ListConnections(ctx context.Context, c client.Client) (*fleetv1alpha1.ClusterConnectionList, error) {
	all := &fleetv1alpha1.ClusterConnectionList{}
	for {
		page := &fleetv1alpha1.ClusterConnectionList{}
		if err := c.List(ctx, page, client.Limit(connectionsPerPage), client.Continue(all.Continue)); err != nil {
			return nil, err
		}
		for i := range page.Items {
			page.Items[i].Status.APIEnablements = nil
			page.Items[i].ManagedFields = nil
		}
		all.Items = append(all.Items, page.Items...)
		if all.Continue = page.Continue; all.Continue == "" {
			return all, nil
		}
	}
}

// ConnectionsByName returns the ClusterConnections by the names of their clusters, as
// ListConnections does. A hub that has none, and a user who may not read them,
// get along without.
func ConnectionsByName(ctx context.Context, c client.Client) (map[string]*fleetv1alpha1.ClusterConnection, error) {
	list, err := ListConnections(ctx, c)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the connections of clusters: %w", err)
	}
	connections := make(map[string]*fleetv1alpha1.ClusterConnection, len(list.Items))
	for i := range list.Items {
		connections[list.Items[i].Name] = &list.Items[i]
	}
	return connections, nil
}
