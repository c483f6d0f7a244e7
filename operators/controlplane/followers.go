// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/paging"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/rotation"
)

// followersPage is how many clusters are read at once.
const followersPage = 200

// followerTrustFacts finds out which members do not trust the authorities yet that the hub
// publishes. Without the kinds of a hub there are no members.
func (r *rotationPhases) followerTrustFacts(ctx context.Context, p *controlPlanePass) (rotation.StageFacts, error) {
	there, err := r.hubs.clientForPass(p)
	if err != nil {
		return rotation.StageFacts{}, r.notReachable(p, err)
	}
	authorities := certs.PublicKeyPins(p.bundles[manifests.ServingAuthority])
	followers, err := listHubFollowers(ctx, there, authorities)
	if meta.IsNoMatchError(err) {
		return rotation.StageFacts{}, nil
	}
	if err != nil {
		return rotation.StageFacts{}, r.notReachable(p, err)
	}
	return rotation.FollowerTrustFacts(followers, authorities, p.plane.Spec.Rotation.ServingAuthorityWithout), nil
}

// listHubFollowers returns the accepted clusters of a hub that connect to it, with those of the
// authorities that they trust. The hub itself connects to the others.
func listHubFollowers(ctx context.Context, hub client.Client, authorities []string) ([]rotation.Follower, error) {
	pages := paging.NewPages(hub, followersPage, paging.ClustersMax)
	connections := map[string]*fleetv1alpha1.ClusterConnection{}
	for page, err := range paging.EachPage(ctx, pages, func() *fleetv1alpha1.ClusterConnectionList { return &fleetv1alpha1.ClusterConnectionList{} }) {
		if err != nil {
			return nil, fmt.Errorf("listing the ClusterConnections of the hub: %w", err)
		}
		for _, c := range page.Items {
			kept := &fleetv1alpha1.ClusterConnection{}
			kept.Spec.SyncMode = c.Spec.SyncMode
			for _, pin := range authorities { // and nothing of what else it says
				if slices.Contains(c.Status.HubAuthorities, pin) {
					kept.Status.HubAuthorities = append(kept.Status.HubAuthorities, pin)
				}
			}
			connections[c.Name] = kept
		}
	}
	var followers []rotation.Follower
	for page, err := range paging.EachPage(ctx, pages, func() *clusterv1.ManagedClusterList { return &clusterv1.ManagedClusterList{} }) {
		if err != nil {
			return nil, fmt.Errorf("listing the ManagedClusters of the hub: %w", err)
		}
		for _, mc := range page.Items {
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
	}
	return followers, nil
}
