// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tree shows the hub, its clusters, the objects delivered to them, the
// placements and replica sets that choose where, and the health of all of these.
package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// pageSize is the number of objects that one request for a list asks for. A work
// may have half a megabyte.
const pageSize = 100

// NewTreeCommand returns the command "tree".
func NewTreeCommand(session *hub.Session) *cobra.Command {
	var problems bool
	cmd := &cobra.Command{
		Use:   "tree [CLUSTER...]",
		Short: "Show clusters, their works and objects, and placements, as a tree",
		Long: "Shows the hub with its clusters, the works that are delivered to them, and the objects of these works: whether " +
			"each is ready, its conditions, and why it is not ready. A condition without a status is as expected. Everything " +
			"comes from the hub, as the agents have reported it.\n\n" +
			"Without names, it also shows placements, with their decisions, the chosen clusters and the works that replica " +
			"sets have created there, and replica sets (ManifestWorkReplicaSets).",
		Example: `  # Everything
  capstan tree

  # One cluster
  capstan tree member1

  # Only what is not ready
  capstan tree --unready`,
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE:              func(cmd *cobra.Command, args []string) error { return runTree(cmd.Context(), session, args, problems) },
	}
	cmd.Flags().BoolVar(&problems, "unready", false, "Show only what is not ready")
	return cmd
}

func runTree(ctx context.Context, session *hub.Session, names []string, problems bool) error {
	c, err := session.ConnectHub()
	if err != nil {
		return err
	}
	clusters, works, missing, err := listClusters(ctx, c, names)
	if err != nil {
		return err
	}
	nodes := buildTree(clusters, works)
	title := fmt.Sprintf("hub %s (%s)", session.ServerAddress(), summarizeCounts(nodes))
	if len(names) == 0 {
		all, err := listPlacementSources(ctx, c)
		if err != nil {
			missing = append(missing, fmt.Errorf("placements and replica sets are not shown: %w", session.ExplainError(err)))
		}
		nodes = append(nodes, all.placementNodes(clusters, works)...)
	}
	if problems {
		nodes = unready(nodes)
	}
	lines := treeRows(nodes, "", func(t time.Time) string { return duration.HumanDuration(session.Clock.Since(t)) })
	if err := writeTree(session.Out, title, lines); err != nil {
		return fmt.Errorf("print the tree: %w", err)
	}
	return errors.Join(missing...)
}

// listClusters returns the clusters of these names, or all, with their works, and an
// error for each name that does not exist.
func listClusters(ctx context.Context, c client.Client, names []string) (
	clusters []clusterv1.ManagedCluster, works []workv1.ManifestWork, missing []error, err error,
) {
	if len(names) == 0 {
		list := &clusterv1.ManagedClusterList{}
		if err := c.List(ctx, list); err != nil {
			return nil, nil, nil, err
		}
		works, err = worksIn(ctx, c, "")
		return list.Items, works, nil, err
	}
	for _, name := range names {
		cluster := clusterv1.ManagedCluster{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, &cluster)
		if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
			missing = append(missing, exit.Next(fmt.Errorf("there is no cluster %q", name), "\"capstan get clusters\" lists those that exist."))
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		of, err := worksIn(ctx, c, name)
		if err != nil {
			return nil, nil, nil, err
		}
		clusters, works = append(clusters, cluster), append(works, of...)
	}
	return clusters, works, missing, nil
}

func worksIn(ctx context.Context, c client.Client, namespace string) ([]workv1.ManifestWork, error) {
	var works []workv1.ManifestWork
	next := ""
	for {
		page := &workv1.ManifestWorkList{}
		err := c.List(ctx, page, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next))
		if err != nil {
			return nil, err
		}
		works = append(works, page.Items...)
		if next = page.Continue; next == "" {
			return works, nil
		}
	}
}

// writeTree prints the lines below the title.
func writeTree(to io.Writer, title string, lines []treeRow) error {
	text := title + "\n"
	if len(lines) > 0 {
		table := [][]string{{"NAME", "READY", "AGE", "CONDITIONS", "WHY"}}
		for _, l := range lines {
			table = append(table, []string{l.name, l.ready, l.age, l.conditions, l.why})
		}
		text += columns.FormatTable(table)
	}
	_, err := io.WriteString(to, text)
	return err
}
