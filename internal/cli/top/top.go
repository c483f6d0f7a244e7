// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package top shows how full clusters are, by what their agents report.
package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/output"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// unknown is what the hub does not know.
const unknown = "-"

// NewTopCommand returns the command "top".
func NewTopCommand(session *hub.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "top", Short: "Show requested and allocatable resources"}
	cmd.AddCommand(newClusters(session))
	return cmd
}

// topCommand is one call of the command.
type topCommand struct {
	session  *hub.Session
	selector string
	sortBy   string
	format   output.Format
}

func newClusters(session *hub.Session) *cobra.Command {
	c := &topCommand{session: session}
	cmd := &cobra.Command{
		Use:     "clusters [NAME...]",
		Aliases: []string{"cluster"},
		Short:   "Show requested and allocatable resources of clusters, and their last heartbeat",
		Long: "Shows, for each cluster, the CPU and memory that its pods request, out of what its nodes can allocate, the " +
			"number of pods, and the time of the last heartbeat. The figures are those that the agents report: requests, not " +
			"usage. \"-\" means unknown.",
		Example: `  # All clusters
  capstan top clusters

  # The fullest first
  capstan top clusters --sort-by cpu

  # For a script
  capstan top clusters -l env=prod -o json`,
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.runTop(cmd.Context(), args) },
	}
	cmd.Flags().StringVarP(&c.selector, "selector", "l", "", "Select clusters by labels, such as env=prod,tier!=test")
	cmd.Flags().StringVar(&c.sortBy, "sort-by", "name", "Order of the clusters. One of: ("+strings.Join(sortOrders(), ", ")+"); the fullest clusters, or those with the oldest heartbeat, first")
	c.format.AddFlag(cmd)
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("sort-by", cobra.FixedCompletions(sortOrders(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func sortOrders() []string { return []string{"name", "cpu", "memory", "pods", "heartbeat"} }

// resourceAmount is how much of something a cluster has, and how much of it is requested.
type resourceAmount struct {
	Requested   *resource.Quantity `json:"requested,omitempty"`
	Allocatable *resource.Quantity `json:"allocatable,omitempty"`
	Capacity    *resource.Quantity `json:"capacity,omitempty"`
	// Percent is the requested share of what is allocatable.
	Percent *int64 `json:"percent,omitempty"`
}

// clusterUsage is what there is to tell about a cluster.
type clusterUsage struct {
	Name       string         `json:"name"`
	Ready      string         `json:"ready"`
	NodesReady *int           `json:"nodesReady,omitempty"`
	Nodes      *int           `json:"nodes,omitempty"`
	CPU        resourceAmount `json:"cpu"`
	Memory     resourceAmount `json:"memory"`
	Pods       resourceAmount `json:"pods"`
	// Heartbeat is when the agent last gave a sign of life.
	Heartbeat *metav1.Time `json:"heartbeat,omitempty"`
}

func (c *topCommand) runTop(ctx context.Context, names []string) error {
	selector, err := c.parseFlags(names)
	if err != nil {
		return err
	}
	all, unread, err := c.readUsage(ctx, names, selector)
	if err != nil {
		return err
	}
	var missing []error
	for _, name := range names {
		if !slices.ContainsFunc(all, func(u clusterUsage) bool { return u.Name == name }) {
			missing = append(missing, exit.Next(fmt.Errorf("there is no cluster %q", name), "\"capstan get clusters\" lists those that exist."))
		}
	}
	slices.SortFunc(all, c.compareUsage)
	if err := c.format.Print(c.session.Out, all, func() string { return c.formatUsage(all) }); err != nil {
		return err
	}
	if len(all) == 0 && len(names) == 0 {
		fmt.Fprintln(c.session.ErrOut, "No clusters found.")
	}
	if unread != "" {
		fmt.Fprintf(c.session.ErrOut, "You may not read %s.\n", unread)
	}
	return errors.Join(missing...)
}

// parseFlags finds out whether the command line makes sense.
func (c *topCommand) parseFlags(names []string) (labels.Selector, error) {
	if err := c.format.CheckFormat(); err != nil {
		return nil, err
	}
	if !slices.Contains(sortOrders(), c.sortBy) {
		return nil, exit.UsageError("--sort-by: unknown order %q; the orders are %s", c.sortBy, strings.Join(sortOrders(), ", "))
	}
	if len(names) > 0 && c.selector != "" {
		return nil, exit.UsageError("names and --selector cannot be given together")
	}
	selector, err := labels.Parse(c.selector)
	if err != nil {
		return nil, exit.UsageError("--selector: %w", err)
	}
	return selector, nil
}

// readUsage reads what the hub knows of the clusters, or of those that are named.
func (c *topCommand) readUsage(ctx context.Context, names []string, selector labels.Selector) (all []clusterUsage, unread string, err error) {
	hubClient, err := c.session.ConnectHub()
	if err != nil {
		return nil, "", err
	}
	clusters, err := hub.ListAllPages(ctx, hubClient, func(l *clusterv1.ManagedClusterList) []clusterv1.ManagedCluster { return l.Items },
		client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, "", err
	}
	connections, err := hub.ConnectionsByName(ctx, hubClient)
	if err != nil {
		return nil, "", err
	}
	beats, unread, err := heartbeats(ctx, hubClient)
	if err != nil {
		return nil, "", err
	}
	all = []clusterUsage{}
	for i := range clusters {
		if cluster := &clusters[i]; len(names) == 0 || slices.Contains(names, cluster.Name) {
			all = append(all, usageOf(cluster, connections[cluster.Name], beats[cluster.Name]))
		}
	}
	return all, unread, nil
}

// heartbeats returns when agents last gave a sign of life, by the names of clusters.
func heartbeats(ctx context.Context, c client.Client) (beats map[string]*metav1.Time, unread string, err error) {
	leases, err := hub.ListAllPages(ctx, c, func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items }, client.MatchingFields{"metadata.name": clusterv1.LeaseName})
	if apierrors.IsForbidden(err) {
		return nil, "Leases (heartbeats are not shown)", nil
	}
	beats = map[string]*metav1.Time{}
	for i := range leases {
		if renewed := leases[i].Spec.RenewTime; renewed != nil {
			beats[leases[i].Namespace] = &metav1.Time{Time: renewed.Time}
		}
	}
	return beats, "", err
}

func usageOf(cluster *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection, beat *metav1.Time) clusterUsage {
	u := clusterUsage{Name: cluster.Name, Ready: string(health.ClusterReadiness(cluster).Ready), Heartbeat: beat}
	if nodes := view.FromCluster(cluster, connection).Nodes; nodes != nil {
		u.NodesReady = &nodes.Ready
		u.Nodes = &nodes.Total
	}
	for name, into := range map[corev1.ResourceName]*resourceAmount{corev1.ResourceCPU: &u.CPU, corev1.ResourceMemory: &u.Memory, corev1.ResourcePods: &u.Pods} {
		*into = amountOf(cluster, connection, name)
	}
	return u
}

// amountOf prefers what a ClusterConnection says: it has what is requested, too.
func amountOf(cluster *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection, name corev1.ResourceName) resourceAmount {
	var a resourceAmount
	if quantity, has := cluster.Status.Allocatable[clusterv1.ResourceName(name)]; has {
		a.Allocatable = &quantity
	}
	if quantity, has := cluster.Status.Capacity[clusterv1.ResourceName(name)]; has {
		a.Capacity = &quantity
	}
	if connection == nil || connection.Status.ResourceSummary == nil {
		return a
	}
	summary := connection.Status.ResourceSummary
	if quantity, has := summary.Allocatable[string(name)]; has {
		a.Allocatable = &quantity
	}
	if quantity, has := summary.Capacity[string(name)]; has {
		a.Capacity = &quantity
	}
	allocated, has := summary.Allocated[string(name)]
	if !has {
		return a
	}
	requested := allocated.DeepCopy()
	requested.Add(summary.Allocating[string(name)])
	a.Requested = &requested
	if a.Allocatable != nil && !a.Allocatable.IsZero() {
		percent := int64(100 * requested.AsApproximateFloat64() / a.Allocatable.AsApproximateFloat64())
		a.Percent = &percent
	}
	return a
}

// compareUsage compares two clusters: those that nothing is known of come last.
func (c *topCommand) compareUsage(a, b clusterUsage) int {
	full := func(x, y resourceAmount) int {
		if x.Percent == nil || y.Percent == nil {
			return cmp.Compare(boolToInt(x.Percent == nil), boolToInt(y.Percent == nil))
		}
		return cmp.Compare(*y.Percent, *x.Percent)
	}
	first := 0
	switch c.sortBy {
	case "cpu":
		first = full(a.CPU, b.CPU)
	case "memory":
		first = full(a.Memory, b.Memory)
	case "pods":
		first = full(a.Pods, b.Pods)
	case "heartbeat": // the most silent first, and before them those that were never heard of
		first = timeOrZero(a.Heartbeat).Compare(timeOrZero(b.Heartbeat))
	}
	return cmp.Or(first, cmp.Compare(a.Name, b.Name))
}

func boolToInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

func timeOrZero(at *metav1.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.Time
}

func (c *topCommand) formatUsage(all []clusterUsage) string {
	if len(all) == 0 {
		return ""
	}
	rows := [][]string{{"NAME", "READY", "NODES", "CPU", "CPU%", "MEMORY", "MEMORY%", "PODS", "HEARTBEAT"}}
	for _, u := range all {
		nodes := unknown
		beat := unknown
		if u.Nodes != nil {
			nodes = fmt.Sprintf("%d/%d", *u.NodesReady, *u.Nodes)
		}
		if u.Heartbeat != nil {
			beat = duration.HumanDuration(c.session.Clock.Since(u.Heartbeat.Time)) + " ago"
		}
		rows = append(rows, []string{u.Name, u.Ready, nodes, u.CPU.formatAmount(), u.CPU.formatPercent(), u.Memory.formatAmount(), u.Memory.formatPercent(), u.Pods.formatAmount(), beat})
	}
	return columns.FormatTable(rows)
}

// formatAmount is what is requested of what is allocatable.
func (a resourceAmount) formatAmount() string {
	if a.Requested == nil && a.Allocatable == nil {
		return unknown
	}
	value := func(q *resource.Quantity) string {
		if q == nil {
			return unknown
		}
		return q.String()
	}
	return value(a.Requested) + "/" + value(a.Allocatable)
}

func (a resourceAmount) formatPercent() string {
	if a.Percent == nil {
		return unknown
	}
	return fmt.Sprintf("%d%%", *a.Percent)
}
