// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// confirm is that what a hub has forgotten may go.
type confirm struct {
	session     *hub.Session
	all, dryRun bool
}

func newConfirm(session *hub.Session) *cobra.Command {
	c := &confirm{session: session}
	cmd := &cobra.Command{
		Use:   "confirm (CLUSTER... | --all)",
		Short: "Let agents delete what a restored hub has forgotten",
		Long: "Removes the annotation " + fleetv1alpha1.AnnotationRestored + " from ManagedClusters. Their agents then delete, " +
			"after the grace period, what forgotten ManifestWorks delivered, as for every deleted ManifestWork. It first shows " +
			"what they keep. Here the current context is the hub.",
		Example: `  # Show what agents keep
  capstan restore confirm --all --dry-run

  # Let the agent of member1 delete what the hub has forgotten
  capstan restore confirm member1

  # Let all of them, and end the restore
  capstan restore confirm --all`,
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE: func(cmd *cobra.Command, names []string) error {
			if c.all == (len(names) > 0) {
				return exit.UsageError("for which clusters? Give either their names or --all")
			}
			return c.confirmRestore(cmd.Context(), names)
		},
	}
	cmd.Flags().BoolVar(&c.all, "all", false, "Confirm for all clusters, also those that the hub has yet to accept again")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "Only show what agents keep")
	return cmd
}

func (c *confirm) confirmRestore(ctx context.Context, names []string) error {
	connected, err := c.session.ConnectHub()
	if err != nil {
		return err
	}
	clusters, err := c.selectClusters(ctx, connected, names)
	if err != nil {
		return err
	}
	patch, err := restoredRangePatch(nil)
	if err != nil {
		return err
	}
	done := 0
	for i := range clusters {
		cluster := &clusters[i]
		if _, published := cluster.Annotations[fleetv1alpha1.AnnotationRestored]; !published {
			continue
		}
		fmt.Fprintf(c.session.Out, "%s: %s\n", cluster.Name, describeKeptWorks(cluster))
		if c.dryRun {
			continue
		}
		if err := connected.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("annotate ManagedCluster %q: %w", cluster.Name, err)
		}
		done++
	}
	if c.dryRun {
		return nil
	}
	if c.all {
		set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: globalSet}}
		if err := connected.Patch(ctx, set, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("annotate ManagedClusterSet %q: %w", globalSet, err)
		}
	}
	fmt.Fprintf(c.session.Out, "confirmed for %d clusters\n", done)
	return nil
}

// selectClusters returns those of the names, or all.
func (c *confirm) selectClusters(ctx context.Context, connected client.Client, names []string) ([]clusterv1.ManagedCluster, error) {
	if c.all {
		list := &clusterv1.ManagedClusterList{}
		if err := connected.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list the ManagedClusters: %w", err)
		}
		return list.Items, nil
	}
	clusters := make([]clusterv1.ManagedCluster, len(names))
	for i, name := range names {
		err := connected.Get(ctx, client.ObjectKey{Name: name}, &clusters[i])
		switch {
		case apierrors.IsNotFound(err) && hub.IsKindServed(err):
			return nil, exit.Next(fmt.Errorf("there is no cluster %q", name), "\"capstan get clusters\" lists them.")
		case err != nil:
			return nil, fmt.Errorf("read ManagedCluster %q: %w", name, err)
		}
		if _, published := clusters[i].Annotations[fleetv1alpha1.AnnotationRestored]; !published {
			return nil, fmt.Errorf("there is nothing to confirm for cluster %q: it has no annotation %s", name, fleetv1alpha1.AnnotationRestored)
		}
	}
	return clusters, nil
}

// describeKeptWorks says what the agent of a cluster keeps.
func describeKeptWorks(cluster *clusterv1.ManagedCluster) string {
	if c := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionWorksMissing); c != nil {
		return c.Message
	}
	return "its agent reports nothing that is missing"
}
