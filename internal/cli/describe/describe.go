// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package describe shows everything that the hub knows about a cluster.
package describe

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// eventsMax is the number of events that are fetched, and shown, at most.
const eventsMax = 50

// NewDescribeCommand returns the command "describe".
func NewDescribeCommand(session *hub.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe",
		Short: "Show everything that the hub knows about a cluster",
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "cluster NAME...",
		Aliases: []string{"clusters", "managedcluster", "managedclusters", "mcl"},
		Short:   "Show everything that the hub knows about a cluster",
		Long: "Shows everything that the hub knows about a cluster: its state and what to do about it, its heartbeat, " +
			"conditions, taints, resources, claims, works, certificate requests that wait for approval, and events.",
		Example:           `  capstan describe cluster member1`,
		Args:              args.Some("the name of the cluster"),
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE:              func(cmd *cobra.Command, args []string) error { return describeClusters(cmd.Context(), session, args) },
	})
	return cmd
}

func describeClusters(ctx context.Context, session *hub.Session, names []string) error {
	c, err := session.ConnectHub()
	if err != nil {
		return err
	}
	var missing []error
	for i, name := range names {
		v, err := gatherClusterView(ctx, c, name)
		if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
			missing = append(missing, exit.Next(fmt.Errorf("there is no cluster %q", name), "\"capstan get clusters\" lists those that exist."))
			continue
		}
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprint(session.Out, "\n\n")
		}
		if err := v.printDescription(session.Out, session.Clock); err != nil {
			return fmt.Errorf("print cluster %q: %w", name, err)
		}
	}
	return errors.Join(missing...)
}

// clusterView is what is told about a cluster.
type clusterView struct {
	cluster    *clusterv1.ManagedCluster
	connection *fleetv1alpha1.ClusterConnection
	lease      *coordinationv1.Lease
	works      []workv1.ManifestWork
	requests   []certificatesv1.CertificateSigningRequest
	events     []corev1.Event
	// unread names what could not be read, with the reason. It is told instead.
	unread map[string]error
}

// gatherClusterView reads what there is to tell. Only the cluster itself has to be
// readable; a user who may not read the rest is told so in its place.
func gatherClusterView(ctx context.Context, c client.Client, name string) (*clusterView, error) {
	v := &clusterView{cluster: &clusterv1.ManagedCluster{}, unread: map[string]error{}}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, v.cluster); err != nil {
		return nil, err
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	switch err := c.Get(ctx, client.ObjectKey{Name: name}, connection); {
	case err == nil:
		v.connection = connection
	case !apierrors.IsNotFound(err):
		v.unread[sectionConnection] = err
	}
	lease := &coordinationv1.Lease{}
	switch err := c.Get(ctx, client.ObjectKey{Namespace: name, Name: clusterv1.LeaseName}, lease); {
	case err == nil:
		v.lease = lease
	case !apierrors.IsNotFound(err):
		v.unread[sectionHeartbeat] = err
	}
	works := &workv1.ManifestWorkList{}
	if err := c.List(ctx, works, client.InNamespace(name)); err != nil {
		v.unread[sectionWorks] = err
	}
	v.works = works.Items
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := c.List(ctx, requests, client.MatchingLabels{clusterv1.LabelClusterName: name}); err != nil {
		v.unread[sectionRequests] = err
	}
	v.requests = requests.Items
	for _, namespace := range []string{metav1.NamespaceDefault, name} { // agents record in the one of their cluster
		events := &corev1.EventList{}
		if err := c.List(ctx, events, append(hub.EventsAbout("ManagedCluster", name, namespace), client.Limit(eventsMax))...); err != nil {
			v.unread[sectionEvents] = err
		}
		v.events = append(v.events, events.Items...)
	}
	return v, nil
}
