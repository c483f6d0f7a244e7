// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package get

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

func newWorks(session *hub.Session) *cobra.Command {
	l := &listCommand{session: session, kind: workv1.GroupVersion.WithKind("ManifestWork"), resource: "works", within: "of cluster"}
	var namespace string
	var all bool
	cmd := &cobra.Command{
		Use:     "works [NAME...] [-n CLUSTER | -A]",
		Aliases: []string{"work", "manifestworks", "manifestwork"},
		Short:   "List works",
		Long: "Lists what is delivered to clusters: how many objects each work has, how many of them are applied and exist, and " +
			"whether it is ready. The works of a cluster are in the hub namespace that is named after it. Without -n, it " +
			"lists the works in the namespace of the kubeconfig's context if it has one, otherwise those of all clusters.",
		Example: `  # The works of all clusters
  capstan get works -A

  # The works of one cluster, and why one is not ready
  capstan get works -n member1 -o wide`,
		ValidArgsFunction: complete.WorkNamesCompletion(session, func() string { return namespace }),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && cmd.Flags().Changed("namespace"):
				return exit.UsageError("--namespace and --all-namespaces cannot be given together")
			case all:
				namespace = ""
			case namespace == "":
				namespace = session.ContextNamespace()
			}
			if namespace == "" && len(args) > 0 {
				return exit.UsageError("a work is named within its cluster: add -n CLUSTER")
			}
			l.table = func(_ context.Context, _ client.Client, objects []unstructured.Unstructured) (*metav1.Table, error) {
				return l.workTable(objects, namespace == "")
			}
			return l.runList(cmd.Context(), namespace, args)
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "Cluster whose works to list")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "List the works of all clusters")
	l.addFlags(cmd)
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("namespace", complete.ClusterNamesCompletion(session))
	return cmd
}

func (l *listCommand) workTable(objects []unstructured.Unstructured, withCluster bool) (*metav1.Table, error) {
	const wide = 1
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Cluster", Type: "string"},
		{Name: "Name", Type: "string", Format: "name"},
		{Name: "Objects", Type: "integer"},
		{Name: "Applied", Type: "string"},
		{Name: "Available", Type: "string"},
		{Name: "Ready", Type: "string"},
		{Name: "Age", Type: "string"},
		{Name: "Reason", Type: "string", Priority: wide},
	}}
	for _, object := range objects {
		work, err := decodeObject[workv1.ManifestWork](object)
		if err != nil {
			return nil, err
		}
		state := health.WorkReadiness(work)
		total := len(work.Spec.Workload.Manifests)
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			work.Namespace, work.Name, int64(total),
			conditionShare(work, workv1.ManifestConditionApplied), conditionShare(work, workv1.ManifestConditionAvailable),
			string(state.Ready), l.formatAge(work.CreationTimestamp), orNone(state.Reason),
		}})
	}
	if !withCluster {
		dropFirstColumn(table)
	}
	return table, nil
}

// conditionShare is how many of the objects of a work have a condition.
func conditionShare(work *workv1.ManifestWork, condition string) string {
	count := 0
	for _, object := range work.Status.ResourceStatus.Manifests {
		if meta.IsStatusConditionTrue(object.Conditions, condition) {
			count++
		}
	}
	return fmt.Sprintf("%d/%d", count, len(work.Spec.Workload.Manifests))
}
