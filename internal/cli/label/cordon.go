// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package label

import (
	"slices"

	"github.com/spf13/cobra"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// NewCordonCommand returns the command "cordon".
func NewCordonCommand(session *hub.Session) *cobra.Command {
	c := &clusterChange{session: session}
	cmd := &cobra.Command{
		Use:   "cordon NAME...",
		Short: "Mark clusters as unschedulable",
		Long: "Keeps new workloads away from clusters, for example before maintenance: adds the taint " + clusterv1.TaintUnschedulable +
			" with effect NoSelectIfNew. What is already there stays.",
		Example: `  capstan cordon member1

  # All clusters of a region
  capstan cordon -l region=eu-west-1`,
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.editClusters(cmd.Context(), args, func(cluster *clusterv1.ManagedCluster) (string, error) {
				if isCordoned(cluster) {
					return cluster.Name + " cluster already cordoned", nil
				}
				cluster.Spec.Taints = append(cluster.Spec.Taints,
					clusterv1.Taint{Key: clusterv1.TaintUnschedulable, Effect: clusterv1.TaintEffectNoSelectIfNew})
				return cluster.Name + " cluster cordoned", nil
			})
		},
	}
	c.addFlags(cmd)
	return cmd
}

// NewUncordonCommand returns the command "uncordon".
func NewUncordonCommand(session *hub.Session) *cobra.Command {
	c := &clusterChange{session: session}
	cmd := &cobra.Command{
		Use:               "uncordon NAME...",
		Short:             "Mark clusters as schedulable",
		Long:              "Lets new workloads come to clusters again: removes the taint " + clusterv1.TaintUnschedulable + ".",
		Example:           `  capstan uncordon member1`,
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.editClusters(cmd.Context(), args, func(cluster *clusterv1.ManagedCluster) (string, error) {
				if !isCordoned(cluster) {
					return cluster.Name + " cluster already uncordoned", nil
				}
				cluster.Spec.Taints = slices.DeleteFunc(cluster.Spec.Taints, isCordon)
				return cluster.Name + " cluster uncordoned", nil
			})
		},
	}
	c.addFlags(cmd)
	return cmd
}

func isCordon(taint clusterv1.Taint) bool { return taint.Key == clusterv1.TaintUnschedulable }

func isCordoned(cluster *clusterv1.ManagedCluster) bool {
	return slices.ContainsFunc(cluster.Spec.Taints, isCordon)
}
