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

// Connections returns the ClusterConnections by the names of their clusters. A
// hub that has none, and a user who may not read them, get along without.
func Connections(ctx context.Context, c client.Client) (map[string]*fleetv1alpha1.ClusterConnection, error) {
	list := &fleetv1alpha1.ClusterConnectionList{}
	if err := c.List(ctx, list); apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list the connections of clusters: %w", err)
	}
	connections := make(map[string]*fleetv1alpha1.ClusterConnection, len(list.Items))
	for i := range list.Items {
		connections[list.Items[i].Name] = &list.Items[i]
	}
	return connections, nil
}
