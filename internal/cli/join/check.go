// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/access"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/cli/takeover"
)

// checkJoin finds out all that can keep the join from working, before anything is
// changed on either side.
func (j *joinRun) checkJoin(ctx context.Context) error {
	known, err := readFleet(ctx, j.hub)
	if err != nil {
		return err
	}
	if err := checkHubManaged(ctx, j.hub); err != nil {
		return err
	}
	if j.identity, err = j.there.Identify(ctx); err != nil {
		return err
	}
	if j.plan, err = decideJoin(known, j.name, j.identity.UID, j.asRegistered); err != nil {
		return err
	}
	route, warning, err := newRoute(j.there.Config, j.there.KubeconfigEntry(), j.joinOptions.route)
	if err != nil {
		return err
	}
	j.route = route
	if warning != "" {
		j.warnings = append(j.warnings, warning)
	}
	if j.push, err = member.PushOf(ctx, j.hub, j.name, j.namespace); err != nil {
		return err
	}
	j.push.Role = j.role
	if err := checkRights(ctx, j.hub, "on the hub", j.hubRights()...); err != nil {
		return err
	}
	if err := checkRights(ctx, j.there.Client, "in the member", append(j.push.RequiredRights(), takeover.ListRecordsRight())...); err != nil {
		return j.there.ExplainError(err)
	}
	if j.mode.Skips() {
		return nil
	}
	if err := j.dryRunOnHub(ctx); err != nil {
		return err
	}
	return j.there.ExplainError(j.push.DryRunInstall(ctx, j.there.Client))
}

// readFleet reads what the hub knows about its clusters.
func readFleet(ctx context.Context, c client.Client) (hubFleet, error) {
	clusters := &clusterv1.ManagedClusterList{}
	if err := c.List(ctx, clusters); err != nil {
		return hubFleet{}, err
	}
	connections, err := hub.ListConnections(ctx, c)
	if err != nil {
		return hubFleet{}, err
	}
	f := hubFleet{clusters: map[string]*clusterv1.ManagedCluster{}, connections: map[string]*fleetv1alpha1.ClusterConnection{}}
	for i := range clusters.Items {
		f.clusters[clusters.Items[i].Name] = &clusters.Items[i]
	}
	for i := range connections.Items {
		f.connections[connections.Items[i].Name] = &connections.Items[i]
	}
	return f, nil
}

// checkHubManaged returns an error if nothing works on the hub. A hub whose components
// run elsewhere has no ClusterManager, and not even the kind; whoever may not
// read it goes without the check.
func checkHubManaged(ctx context.Context, c client.Client) error {
	list := &operatorv1.ClusterManagerList{}
	err := c.List(ctx, list)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err) && !hub.IsKindServed(err), meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return fmt.Errorf("find out how the hub is installed: %w", err)
	case len(list.Items) == 0:
		return exit.Next(errors.New("the hub has no ClusterManager, so nothing would accept the cluster"), "Install the hub completely: see docs/cli.md.")
	}
	return nil
}

// checkRights returns an error with all rights that the user lacks.
func checkRights(ctx context.Context, c client.Client, where string, rights ...authorizationv1.ResourceAttributes) error {
	missing, err := access.MissingRights(ctx, c, rights...)
	if err != nil || len(missing) == 0 {
		return err
	}
	var lines []string
	for _, right := range missing {
		lines = append(lines, "  "+access.DescribeRight(right))
	}
	return exit.Next(fmt.Errorf("you lack rights %s, without which the cluster cannot join:\n%s", where, strings.Join(lines, "\n")),
		"Use a kubeconfig of somebody who has them, or ask an administrator for them.")
}

// hubRights are what joining takes on the hub.
func (j *joinRun) hubRights() []authorizationv1.ResourceAttributes {
	var rights []authorizationv1.ResourceAttributes
	if j.plan.cluster == nil {
		rights = append(rights, authorizationv1.ResourceAttributes{Group: clusterv1.GroupName, Resource: "managedclusters", Verb: "create"})
	}
	if j.plan.cluster == nil || !j.plan.cluster.Spec.HubAcceptsClient {
		rights = append(rights, authorizationv1.ResourceAttributes{
			Group: clusterv1.RegisterGroup, Resource: "managedclusters", Subresource: "accept", Name: j.name, Verb: "update",
		})
	}
	if j.plan.cluster != nil && !j.plan.cluster.Spec.HubAcceptsClient {
		rights = append(rights, authorizationv1.ResourceAttributes{Group: clusterv1.GroupName, Resource: "managedclusters", Name: j.name, Verb: "patch"})
	}
	for _, verb := range []string{"create", "patch"} {
		rights = append(rights,
			authorizationv1.ResourceAttributes{Group: fleetv1alpha1.GroupName, Resource: "clusterconnections", Name: j.name, Verb: verb},
			authorizationv1.ResourceAttributes{Resource: "secrets", Namespace: j.name, Name: fleetv1alpha1.DefaultSecretName, Verb: verb})
	}
	return rights
}

// dryRunOnHub lets the hub check what will be written there.
func (j *joinRun) dryRunOnHub(ctx context.Context) error {
	dry := client.NewDryRunClient(j.hub)
	return errors.Join(j.acceptCluster(ctx, dry), j.applyConnection(ctx, dry))
}
