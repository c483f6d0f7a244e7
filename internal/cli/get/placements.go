// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package get

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

func newPlacements(session *hub.Session) *cobra.Command {
	l := &listCommand{session: session, kind: clusterv1beta1.GroupVersion.WithKind("Placement"), resource: "placements", within: "in namespace"}
	var namespace string
	var all bool
	given := func() string {
		if namespace == "" {
			return session.ContextNamespace()
		}
		return namespace
	}
	cmd := &cobra.Command{
		Use:     "placements [NAME...] [-n NAMESPACE | -A]",
		Aliases: []string{"placement"},
		Short:   "List placements",
		Long: "Lists Placements: how many clusters each has chosen, how many are wanted, and whether it is satisfied. Without -n, it " +
			"lists those in the namespace of the kubeconfig's context if it has one, otherwise those of all namespaces. " +
			"\"capstan explain placement\" says why clusters are chosen or not.",
		Example: `  # All of them, and why one is not satisfied
  capstan get placements -A -o wide

  # Those of a namespace
  capstan get placements -n team-a`,
		ValidArgsFunction: complete.PlacementNameCompletion(session, given),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all && cmd.Flags().Changed("namespace") {
				return exit.UsageError("--namespace and --all-namespaces cannot be given together")
			}
			in := given()
			if all {
				in = ""
			}
			if in == "" && len(args) > 0 {
				return exit.UsageError("a placement is named within its namespace: add -n NAMESPACE")
			}
			l.table = func(_ context.Context, _ client.Client, objects []unstructured.Unstructured) (*metav1.Table, error) {
				return l.placementTable(objects, in == "")
			}
			return l.runList(cmd.Context(), in, args)
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "Namespace whose placements to list")
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "List the placements of all namespaces")
	l.addFlags(cmd)
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("namespace", complete.PlacementNamespaces(session))
	return cmd
}

func (l *listCommand) placementTable(objects []unstructured.Unstructured, withNamespace bool) (*metav1.Table, error) {
	const wide = 1
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Namespace", Type: "string"},
		{Name: "Name", Type: "string", Format: "name"},
		{Name: "Chosen", Type: "integer"},
		{Name: "Wanted", Type: "string"},
		{Name: "Satisfied", Type: "string"},
		{Name: "Age", Type: "string"},
		{Name: "Reason", Type: "string", Priority: wide},
	}}
	for _, object := range objects {
		p, err := decodeObject[clusterv1beta1.Placement](object)
		if err != nil {
			return nil, err
		}
		state := health.PlacementReadiness(p)
		wanted := "all"
		if p.Spec.NumberOfClusters != nil {
			wanted = fmt.Sprint(*p.Spec.NumberOfClusters)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			p.Namespace, p.Name, int64(p.Status.NumberOfSelectedClusters), wanted, string(state.Ready), l.formatAge(p.CreationTimestamp), orNone(state.Reason),
		}})
	}
	if !withNamespace {
		dropFirstColumn(table)
	}
	return table, nil
}
