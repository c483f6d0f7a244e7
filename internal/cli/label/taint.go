// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package label

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// resource is what kubectl, too, calls clusters in its answers.
const resource = "managedcluster.cluster.open-cluster-management.io/"

// NewTaintCommand returns the command "taint".
func NewTaintCommand(session *hub.Session) *cobra.Command {
	c := &clusterChange{session: session}
	var overwrite bool
	cmd := &cobra.Command{
		Use:   "taint clusters NAME... KEY[=VALUE]:EFFECT... KEY[:EFFECT]-...",
		Short: "Add taints to clusters, or remove them",
		Long: "Adds taints to clusters, or removes them. The effects are NoSelect, which moves away what does not tolerate the " +
			"taint, PreferNoSelect, which prefers other clusters, and NoSelectIfNew, which keeps new workloads away. The " +
			"equivalent effects of node taints are accepted as well: NoExecute, PreferNoSchedule and NoSchedule. A trailing " +
			"hyphen removes the taint.",
		Example: `  # Only workloads that tolerate the taint may be on the cluster
  capstan taint clusters member1 dedicated=gpu:NoSelect

  # Change the value
  capstan taint clusters member1 dedicated=batch:NoSelect --overwrite

  # Remove the taint with this effect, or all taints with this key
  capstan taint clusters member1 dedicated:NoSelect-
  capstan taint clusters member1 dedicated-`,
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, texts, err := splitNamesAndChanges(args)
			if err != nil {
				return err
			}
			if len(texts) == 0 {
				return exit.UsageError("which taint? Write KEY=VALUE:EFFECT, or KEY- to remove it")
			}
			changes := []taintChange{}
			done := ""
			for _, text := range texts {
				parsed, err := parseTaint(text)
				if err != nil {
					return err
				}
				changes, done = append(changes, parsed), taintVerb(done, parsed.remove)
			}
			return c.editClusters(cmd.Context(), names, func(cluster *clusterv1.ManagedCluster) (string, error) {
				taints, err := editTaints(cluster.Spec.Taints, changes, overwrite)
				if err != nil {
					return "", err
				}
				said := resource + cluster.Name + " " + changedOr(cluster.Spec.Taints, taints, done, "not changed")
				cluster.Spec.Taints = taints
				return said, nil
			})
		},
	}
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "Replace the values of existing taints")
	c.addFlags(cmd)
	return cmd
}

// taintVerb is what was done, after another change besides those before.
func taintVerb(before string, remove bool) string {
	now := "tainted"
	if remove {
		now = "untainted"
	}
	if before != "" && before != now {
		return "modified"
	}
	return now
}

// NewLabelCommand returns the command "label".
func NewLabelCommand(session *hub.Session) *cobra.Command {
	c := &clusterChange{session: session}
	var overwrite, list bool
	cmd := &cobra.Command{
		Use:   "label clusters NAME... KEY=VALUE... KEY-...",
		Short: "Set labels of clusters, or remove them",
		Long: "Sets labels of clusters, or removes them. To move a cluster into or out of a set, set the label " +
			clusterv1.LabelClusterSet + "; that needs the permission to join both sets.",
		Example: `  # Set one label and remove another
  capstan label clusters member1 env=prod tier-

  # Change the value
  capstan label clusters member1 env=test --overwrite

  # Show its labels
  capstan label clusters member1 --list`,
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, texts, err := splitNamesAndChanges(args)
			if err != nil {
				return err
			}
			if len(texts) == 0 && !list {
				return exit.UsageError("which label? Write KEY=VALUE, KEY- to remove it, or --list")
			}
			changes, err := parseLabels(texts)
			if err != nil {
				return err
			}
			return c.editClusters(cmd.Context(), names, func(cluster *clusterv1.ManagedCluster) (string, error) {
				return labelCluster(cluster, changes, overwrite, list)
			})
		},
	}
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "Replace the values of existing labels")
	cmd.Flags().BoolVar(&list, "list", false, "Print the labels, after the changes if there are any")
	c.addFlags(cmd)
	return cmd
}

func labelCluster(cluster *clusterv1.ManagedCluster, changes labelChanges, overwrite, list bool) (string, error) {
	edited, err := editLabels(cluster.Labels, changes, overwrite)
	if err != nil {
		return "", err
	}
	done := "labeled"
	if len(changes.set) == 0 {
		done = "unlabeled"
	}
	said := resource + cluster.Name + " " + changedOr(cluster.Labels, edited, done, "not labeled")
	if list && len(changes.set)+len(changes.remove) == 0 {
		said = "Labels of " + cluster.Name + ":"
	}
	if list {
		for _, key := range slices.Sorted(maps.Keys(edited)) {
			said += fmt.Sprintf("\n  %s=%s", key, edited[key])
		}
	}
	cluster.Labels = edited
	return said, nil
}
