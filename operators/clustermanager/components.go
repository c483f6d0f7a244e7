// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"iter"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/paging"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/operators/clustermanager/status"
)

// deployComponents installs the Deployments and finds out how far they are.
func (i *hubInstallation) deployComponents(ctx context.Context, p *clusterManagerPass) error {
	var err error
	if p.hub.PushClusters, err = i.hasPushCluster(ctx, p); err != nil {
		return err
	}
	for _, component := range manifests.HubComponents(p.hub) {
		if err := p.Apply(ctx, i.management, component.Workload.RenderDeployment()); err != nil {
			return err
		}
		live, err := i.getHubDeployment(ctx, component.Workload.Name, p)
		if err != nil {
			return err
		}
		applied := p.Records[len(p.Records)-1]
		p.rollouts = append(p.rollouts, status.RolloutOf(wantedDeployment(component, applied.Generation), live))
	}
	p.Records = append(p.Records, absentDeployments(p.hub)...)
	return nil
}

// connectionsPage is how many ClusterConnections are read at once of a hub that is not the
// operator's own cluster: as large as agents may make them, they are within what a list may
// have.
const connectionsPage = 50

// hasPushCluster reports whether the hub has a Push cluster. The controller comes
// back when that changes.
func (i *hubInstallation) hasPushCluster(ctx context.Context, p *clusterManagerPass) (bool, error) {
	if p.hub.NoPush {
		i.arrivals.ForgetHub(p.Object.Name)
		return false, nil
	}
	if p.target == i.management {
		if _, err := i.connections.EnsureWatches(p.home); err != nil {
			return false, err
		}
	} else if err := i.arrivals.WatchHub(p.Object.Name, p.credential); err != nil { //nolint:contextcheck // the watch outlives the pass
		return false, err
	}
	for list, err := range i.listConnections(ctx, p) {
		if err != nil {
			return false, fmt.Errorf("listing ClusterConnections: %w", err)
		}
		if slices.ContainsFunc(list.Items, func(c fleetv1alpha1.ClusterConnection) bool { return isPush(&c) }) {
			return true, nil
		}
	}
	return false, nil
}

// listConnections returns the ClusterConnections of a hub: those of the management cluster,
// whose cache has all of them, at once, and those of another one in pages.
func (i *hubInstallation) listConnections(ctx context.Context, p *clusterManagerPass) iter.Seq2[*fleetv1alpha1.ClusterConnectionList, error] {
	empty := func() *fleetv1alpha1.ClusterConnectionList { return &fleetv1alpha1.ClusterConnectionList{} }
	if p.target != i.management {
		return paging.EachPage(ctx, paging.NewPages(p.target.Client, connectionsPage, paging.ClustersMax), empty)
	}
	return func(yield func(*fleetv1alpha1.ClusterConnectionList, error) bool) {
		all := empty()
		yield(all, p.target.Client.List(ctx, all, client.UnsafeDisableDeepCopy))
	}
}

func isPush(connection *fleetv1alpha1.ClusterConnection) bool {
	return connection.Spec.SyncMode == fleetv1alpha1.SyncModePush
}

// absentDeployments returns records of the Deployments that hubs of OCM have and those of
// this version have not: "clusteradm get hub-info" looks their names up among
// the related resources, and fails if it does not find them there. That there
// are no such Deployments does not matter to it.
func absentDeployments(h manifests.Hub) []render.AppliedRecord {
	var records []render.AppliedRecord
	for _, part := range []string{"addon-manager-controller"} {
		records = append(records, render.AppliedRecord{
			GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments"), Kind: "Deployment",
			Namespace: h.Namespace(), Name: h.Name + "-" + part,
		})
	}
	return records
}

// observeRollouts finds out how those components are that are installed, while nothing can
// be changed.
func (c *operatorClusters) observeRollouts(ctx context.Context, p *clusterManagerPass) error {
	for _, component := range manifests.HubComponents(p.hub) {
		live, err := c.getHubDeployment(ctx, component.Workload.Name, p)
		if err != nil {
			return err
		}
		if live.UID != "" {
			p.rollouts = append(p.rollouts, status.RolloutOf(wantedDeployment(component, live.Generation), live))
		}
	}
	return nil
}

// getHubDeployment returns a Deployment of the hub; one without a UID means that there
// is none.
func (c *operatorClusters) getHubDeployment(ctx context.Context, name string, p *clusterManagerPass) (*appsv1.Deployment, error) {
	live := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: p.hub.Namespace(), Name: name}
	if err := c.Client.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Deployment %q: %w", key, err)
	}
	return live, nil
}

// wantedDeployment is what a component's Deployment of the generation is to be.
func wantedDeployment(component manifests.HubComponent, generation int64) status.WantedDeployment {
	return status.WantedDeployment{
		Deployment: component.Workload.Name, CountsFor: component.CountsFor,
		Replicas: component.Workload.Replicas, Generation: generation,
	}
}

// isPartAvailable reports whether a Deployment of the hub has a pod that works.
func (c *operatorClusters) isPartAvailable(ctx context.Context, p *clusterManagerPass, part string) (bool, error) {
	live, err := c.getHubDeployment(ctx, p.Object.Name+"-"+part, p)
	if err != nil {
		return false, err
	}
	return live.Status.AvailableReplicas > 0, nil
}
