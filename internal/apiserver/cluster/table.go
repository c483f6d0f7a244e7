// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

func clusterColumns() []metav1.TableColumnDefinition {
	const wide = 1
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Name of the cluster."},
		{Name: "Version", Type: "string", Description: "Version of the cluster's API server."},
		{Name: "Mode", Type: "string", Description: "Which side opens the connection: Push or Pull."},
		{Name: "Ready", Type: "string", Description: "Whether the cluster is healthy and connected."},
		{Name: "Age", Type: "string", Description: "Time since the cluster was created on the hub."},
		{Name: "Zones", Type: "string", Priority: wide, Description: "Zones in which the cluster has nodes."},
		{Name: "Region", Type: "string", Priority: wide, Description: "Region of the cluster."},
		{Name: "Provider", Type: "string", Priority: wide, Description: "Provider of the cluster."},
		{Name: "API-Endpoint", Type: "string", Priority: wide, Description: "URL of the cluster's API server."},
		{Name: "Proxy-URL", Type: "string", Priority: wide, Description: "Proxy through which the hub connects to the cluster."},
	}
}

// clusterPrinter shows Clusters as a table.
type clusterPrinter struct{ clock clock.PassiveClock }

// ConvertToTable implements rest.TableConvertor, with Karmada's columns.
func (p clusterPrinter) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || o == nil || !o.NoHeaders {
		table.ColumnDefinitions = clusterColumns()
	}
	switch o := object.(type) {
	case *v1alpha1.Cluster:
		table.ResourceVersion = o.ResourceVersion
		table.Rows = []metav1.TableRow{p.clusterRow(o)}
	case *v1alpha1.ClusterList:
		table.ResourceVersion = o.ResourceVersion
		table.Continue = o.Continue
		table.RemainingItemCount = o.RemainingItemCount
		table.Rows = make([]metav1.TableRow, 0, len(o.Items))
		for i := range o.Items {
			table.Rows = append(table.Rows, p.clusterRow(&o.Items[i]))
		}
	default:
		return nil, fmt.Errorf("a table shows Clusters, and not %T", object)
	}
	return table, nil
}

func (p clusterPrinter) clusterRow(c *v1alpha1.Cluster) metav1.TableRow {
	ready := "Unknown"
	if condition := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ClusterConditionReady); condition != nil {
		ready = string(condition.Status)
	}
	age := "<unknown>"
	if !c.CreationTimestamp.IsZero() {
		age = duration.HumanDuration(p.clock.Since(c.CreationTimestamp.Time))
	}
	return metav1.TableRow{
		Object: runtime.RawExtension{Object: c},
		Cells: []any{
			c.Name, c.Status.KubernetesVersion, string(c.Spec.SyncMode), ready, age,
			orNone(strings.Join(c.Spec.Zones, ",")), orNone(c.Spec.Region), orNone(c.Spec.Provider), orNone(c.Spec.APIEndpoint), orNone(c.Spec.ProxyURL),
		},
	}
}

func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}
