// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"

// AwaitedSecretFor returns what is said of the Secret that is to be copied under a name into
// the namespace of the cluster, nil if none is waited for.
func AwaitedSecretFor(connection *fleetv1alpha1.ClusterConnection, copied string) *fleetv1alpha1.AwaitedSecret {
	if connection.Cluster == nil {
		return nil
	}
	for i := range connection.Cluster.AwaitedSecrets {
		if awaited := &connection.Cluster.AwaitedSecrets[i]; awaited.Copy == copied {
			return awaited
		}
	}
	return nil
}
