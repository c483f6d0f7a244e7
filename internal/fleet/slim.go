// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// SlimConnection drops from a ClusterConnection what its agent found in the
// cluster: it is nearly all of the object, and nothing on the hub decides by it.
// It is a transform of caches.
func SlimConnection(obj any) (any, error) {
	if connection, ok := obj.(*fleetv1alpha1.ClusterConnection); ok {
		connection.ManagedFields = nil
		connection.Status.APIEnablements = nil
		connection.Status.NodeSummary, connection.Status.ResourceSummary = nil, nil
	}
	return obj, nil
}
