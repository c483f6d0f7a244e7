// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/certs"
	"github.com/capstan-io/capstan/internal/dial"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/rotation"
)

// followersPage is how many clusters are read at once.
const followersPage = 200

// followed finds out which members do not trust the authorities yet that the hub
// publishes. Without the kinds of a hub there are no members.
func (r *rotations) followed(ctx context.Context, p *pass) (rotation.Facts, error) {
	there, err := r.hubs.get(p)
	if err != nil {
		return rotation.Facts{}, r.notReachable(p, err)
	}
	followers, err := followersOf(ctx, there)
	if meta.IsNoMatchError(err) {
		return rotation.Facts{}, nil
	}
	if err != nil {
		return rotation.Facts{}, r.notReachable(p, err)
	}
	return rotation.Followed(followers, certs.Pins(p.bundles[manifests.ServingAuthority]), p.plane.Spec.Rotation.ServingAuthorityWithout), nil
}

// followersOf returns the accepted clusters of a hub that connect to it. The hub
// itself connects to the others.
func followersOf(ctx context.Context, hub client.Client) ([]rotation.Follower, error) {
	connections := map[string]*fleetv1alpha1.ClusterConnection{}
	err := pages(ctx, hub, func() client.ObjectList { return &fleetv1alpha1.ClusterConnectionList{} }, func(o client.ObjectList) {
		for _, c := range o.(*fleetv1alpha1.ClusterConnectionList).Items { //nolint:forcetypeassert // made above
			kept := &fleetv1alpha1.ClusterConnection{}
			kept.Spec.SyncMode, kept.Status.HubAuthorities = c.Spec.SyncMode, c.Status.HubAuthorities
			connections[c.Name] = kept
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing the ClusterConnections of the hub: %w", err)
	}
	var followers []rotation.Follower
	err = pages(ctx, hub, func() client.ObjectList { return &clusterv1.ManagedClusterList{} }, func(o client.ObjectList) {
		for _, mc := range o.(*clusterv1.ManagedClusterList).Items { //nolint:forcetypeassert // made above
			follower := rotation.Follower{Name: mc.Name}
			if c := connections[mc.Name]; c != nil {
				if c.Spec.SyncMode == fleetv1alpha1.SyncModePush {
					continue
				}
				follower.Trusts = c.Status.HubAuthorities
			}
			if mc.Spec.HubAcceptsClient {
				followers = append(followers, follower)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing the ManagedClusters of the hub: %w", err)
	}
	return followers, nil
}

// pages lists all objects, some at a time: those of a large fleet are many.
func pages(ctx context.Context, c client.Client, list func() client.ObjectList, see func(client.ObjectList)) error {
	for next := ""; ; {
		page := list()
		if err := c.List(dial.Paged(ctx), page, client.Limit(followersPage), client.Continue(next)); err != nil {
			return err
		}
		see(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}
