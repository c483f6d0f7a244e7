// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package label has the commands label, taint, cordon and uncordon, for taints and
// labels of clusters.
package label

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// clusterChange is a change that a command makes to each of some clusters.
type clusterChange struct {
	session  *hub.Session
	mode     dryrun.Mode
	selector string
	all      bool
}

func (c *clusterChange) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.selector, "selector", "l", "", "Labels of the clusters to change, instead of their names, such as env=prod")
	cmd.Flags().BoolVar(&c.all, "all", false, "Change all clusters")
	c.mode.AddFlag(cmd)
}

// clusterEdit changes a cluster in memory and returns what to say: that it is changed,
// or why not. It is called again if somebody else changed the cluster meanwhile.
type clusterEdit func(*clusterv1.ManagedCluster) (said string, err error)

// editClusters makes the change to the clusters of these names, or to those selected.
func (c *clusterChange) editClusters(ctx context.Context, names []string, do clusterEdit) error {
	if err := c.mode.ValidateMode(); err != nil {
		return err
	}
	selector, err := c.parseSelector(names)
	if err != nil {
		return err
	}
	connection, err := c.session.ConnectHub()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		list := &clusterv1.ManagedClusterList{}
		if err := connection.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return err
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		slices.Sort(names)
	}
	if len(names) == 0 {
		return exit.Next(errors.New("there is no such cluster"), "\"capstan get clusters\" lists those that exist.")
	}
	var failed []error
	for _, name := range names {
		err := c.session.ExplainError(c.editCluster(ctx, connection, c.mode.WrapClient(connection), name, do))
		if exit.Code(err) == exit.NoHub || ctx.Err() != nil {
			return err
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// parseSelector returns what --selector says, and refuses clusters that are
// chosen in several ways or in none.
func (c *clusterChange) parseSelector(names []string) (labels.Selector, error) {
	selector, err := labels.Parse(c.selector)
	switch {
	case err != nil:
		return nil, exit.UsageError("--selector: %w", err)
	case len(names) > 0 && (c.all || c.selector != ""), c.all && c.selector != "":
		return nil, exit.UsageError("give names of clusters, or --selector, or --all, and only one of these")
	case len(names) == 0 && !c.all && c.selector == "":
		return nil, exit.UsageError("which clusters? Give their names, --selector or --all")
	}
	return selector, nil
}

// editCluster changes one cluster. The hub writes taints, too: the change is made to
// what was read and to nothing else, or made again.
func (c *clusterChange) editCluster(ctx context.Context, read, write client.Client, name string, do clusterEdit) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cluster := &clusterv1.ManagedCluster{}
		err := read.Get(ctx, client.ObjectKey{Name: name}, cluster)
		if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
			return exit.Next(fmt.Errorf("there is no cluster %q", name), "\"capstan get clusters\" lists those that exist.")
		}
		if err != nil {
			return err
		}
		before := cluster.DeepCopy()
		said, err := do(cluster)
		if err != nil {
			return fmt.Errorf("cluster %q: %w", name, err)
		}
		changed := !equality.Semantic.DeepEqual(before, cluster)
		if changed && !c.mode.Skips() {
			patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
			if err := write.Patch(ctx, cluster, patch); err != nil {
				return err
			}
		}
		if changed {
			said += c.mode.Suffix()
		}
		fmt.Fprintln(c.session.Out, said)
		return nil
	})
}

// changedOr returns one text if the labels or taints differ, and else another.
func changedOr[T any](before, after T, changed, same string) string {
	if equality.Semantic.DeepEqual(before, after) {
		return same
	}
	return changed
}
