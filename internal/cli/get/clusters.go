// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package get

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

func newClusters(session *hub.Session) *cobra.Command {
	l := &listCommand{session: session, kind: clusterv1.GroupVersion.WithKind("ManagedCluster"), resource: "clusters"}
	l.table = l.clusterTable
	cmd := &cobra.Command{
		Use:     "clusters [NAME...]",
		Aliases: []string{"cluster", "managedclusters", "managedcluster", "mcl"},
		Short:   "List clusters",
		Long: "Lists the clusters of the hub, or those named: their Kubernetes version, how they and the hub are connected " +
			"(MODE), and whether they are ready. -o wide adds how many of their nodes are ready, where they are, and why they " +
			"are not ready.",
		Example: `  # All clusters
  capstan get clusters

  # With their nodes (ready/all), zones, region, provider and endpoint, and why one is not ready
  capstan get clusters -o wide

  # All clusters, and each again whenever it changes
  capstan get clusters -w

  # Those with a label, as names for other commands
  capstan get clusters -l env=prod -o name

  # One cluster, as it is on the hub
  capstan get clusters member1 -o yaml`,
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE:              func(cmd *cobra.Command, args []string) error { return l.runList(cmd.Context(), "", args) },
	}
	l.addFlags(cmd)
	return cmd
}

func (l *listCommand) clusterTable(ctx context.Context, c client.Client, objects []unstructured.Unstructured) (*metav1.Table, error) {
	const wide = 1
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name"},
		{Name: "Version", Type: "string"},
		{Name: "Mode", Type: "string"},
		{Name: "Ready", Type: "string"},
		{Name: "Age", Type: "string"},
		{Name: "Nodes", Type: "string", Priority: wide},
		{Name: "Zones", Type: "string", Priority: wide},
		{Name: "Region", Type: "string", Priority: wide},
		{Name: "Provider", Type: "string", Priority: wide},
		{Name: "Endpoint", Type: "string", Priority: wide},
		{Name: "Reason", Type: "string", Priority: wide},
	}}
	connections, err := hub.ConnectionsByName(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		cluster, err := decodeObject[clusterv1.ManagedCluster](object)
		if err != nil {
			return nil, err
		}
		f := view.FromCluster(cluster, connections[cluster.Name])
		state := health.ClusterReadiness(cluster)
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			cluster.Name, orNone(f.Version), string(f.Mode), string(state.Ready), l.formatAge(cluster.CreationTimestamp),
			formatNodeCount(f.Nodes), orNone(strings.Join(f.Zones, ",")), orNone(f.Region), orNone(f.Provider), orNone(strings.Join(f.Endpoints, ",")), orNone(state.Reason),
		}})
	}
	return table, nil
}

// formatNodeCount is how many nodes are ready, and how many there are.
func formatNodeCount(summary *view.Nodes) string {
	if summary == nil {
		return orNone("")
	}
	return fmt.Sprintf("%d/%d", summary.Ready, summary.Total)
}

// formatAge is how long ago something was, as kubectl says it.
func (l *listCommand) formatAge(since metav1.Time) string {
	return duration.HumanDuration(l.session.Clock.Since(since.Time))
}
