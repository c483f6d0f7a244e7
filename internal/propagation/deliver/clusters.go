// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"errors"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// ErrDeleting is why a cluster gets nothing any more, and ErrNoCluster why one never
// does.
var (
	ErrDeleting  = errors.New("the cluster is being deleted")
	ErrNoCluster = errors.New("the hub has not accepted a cluster of this name: accept it, or correct spec.clusters of the binding")
)

// CheckWorkNamespace returns why no work may be made in the namespace of the name of a cluster:
// ErrNoCluster or ErrDeleting, or nil if one may. The names are from bindings, and whoever
// wrote one may mean somebody's namespace, so all that makes works asks here.
func CheckWorkNamespace(clusters view.Fleet, name string) error {
	cluster, found := clusters.ClusterNamed(name)
	switch {
	case !found, !cluster.OwnsNamespace():
		return ErrNoCluster
	case cluster.Deleting: // the hub removes the works there, and a new one would be in its way
		return ErrDeleting
	default:
		return nil
	}
}
