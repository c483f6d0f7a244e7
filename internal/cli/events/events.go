// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events lists what has happened to a cluster, as the hub has noted it.
package events

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/output"
)

// eventsMax is how many Events are read from one place. An API server forgets them
// after an hour.
const eventsMax = 500

// eventsCommand is one call of the command.
type eventsCommand struct {
	session  *hub.Session
	warnings bool
	format   output.Format
}

// NewEventsCommand returns the command "events".
func NewEventsCommand(session *hub.Session) *cobra.Command {
	c := &eventsCommand{session: session}
	cmd := &cobra.Command{
		Use:   "events CLUSTER",
		Short: "List the events of a cluster",
		Long: "Lists the Events on the hub that are about a cluster: about its ManagedCluster and its ClusterConnection, and those in its namespace and in " +
			"karmada-es-CLUSTER, which are about its works. The latest comes last. Events in the cluster itself are not listed.",
		Example: `  # What has happened?
  capstan events member1

  # Only what went wrong
  capstan events member1 --warnings`,
		Args:              args.One("the name of the cluster"),
		ValidArgsFunction: complete.ClusterNamesCompletion(session),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.listEvents(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&c.warnings, "warnings", false, "Only Events of type Warning")
	c.format.AddFlag(cmd)
	return cmd
}

// event is an Event, in the form that scripts read.
type event struct {
	// Last is when it last happened, and Count how often.
	Last    metav1.Time `json:"last"`
	Count   int32       `json:"count,omitempty"`
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	Object  string      `json:"object"`
	From    string      `json:"from,omitempty"`
	Message string      `json:"message"`
}

// eventSource is where Events are that are about a cluster.
type eventSource struct {
	title   string
	options []client.ListOption
}

// eventSources are all of them.
func eventSources(cluster string) []eventSource {
	all := []eventSource{
		{"Events of namespace " + cluster, []client.ListOption{client.InNamespace(cluster)}},
		{"Events of namespace " + karmadaworkv1alpha1.NamespacePrefix + cluster, []client.ListOption{client.InNamespace(karmadaworkv1alpha1.NamespacePrefix + cluster)}},
	}
	for _, kind := range []string{"ManagedCluster", "ClusterConnection", "Cluster"} {
		all = append(all, eventSource{"Events about " + kind + "s", hub.EventsAbout(kind, cluster, metav1.NamespaceDefault)})
	}
	return all
}

func (c *eventsCommand) listEvents(ctx context.Context, cluster string) error {
	if err := c.format.CheckFormat(); err != nil {
		return err
	}
	hubClient, err := c.session.ConnectHub()
	if err != nil {
		return err
	}
	err = hubClient.Get(ctx, client.ObjectKey{Name: cluster}, &clusterv1.ManagedCluster{})
	gone := apierrors.IsNotFound(err) && hub.IsKindServed(err)
	if err != nil && !gone && !apierrors.IsForbidden(err) {
		return err
	}
	found, remarks, err := c.readEvents(ctx, hubClient, cluster)
	if err != nil {
		return err
	}
	if gone && len(found) == 0 {
		return exit.Next(fmt.Errorf("there is no cluster %q, and no Event is about it", cluster), "\"capstan get clusters\" lists those that exist.")
	}
	if err := c.format.Print(c.session.Out, found, func() string { return c.formatEvents(found) }); err != nil {
		return err
	}
	c.printRemarks(c.session.ErrOut, cluster, len(found), remarks)
	return nil
}

// printRemarks says what is not in the list.
func (c *eventsCommand) printRemarks(to io.Writer, cluster string, found int, remarks []string) {
	if found == 0 && len(remarks) == 0 {
		fmt.Fprintf(to, "No events of cluster %s found: the hub forgets them after an hour. \"capstan describe cluster %s\" shows its state.\n", cluster, cluster)
	}
	for _, text := range remarks {
		fmt.Fprintln(to, text)
	}
}

// readEvents reads the Events of all places, each once, and orders them by time.
func (c *eventsCommand) readEvents(ctx context.Context, from client.Client, cluster string) (found []event, remarks []string, err error) {
	seen := map[types.UID]bool{}
	found = []event{}
	for _, p := range eventSources(cluster) {
		list := &corev1.EventList{}
		err := from.List(ctx, list, append(p.options, client.Limit(eventsMax))...)
		if apierrors.IsForbidden(err) {
			remarks = append(remarks, fmt.Sprintf("You may not read %s.", p.title))
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		for i := range list.Items {
			e := &list.Items[i]
			if seen[e.UID] || c.warnings && e.Type != corev1.EventTypeWarning {
				continue
			}
			seen[e.UID] = true
			found = append(found, newEventRecord(e))
		}
		if list.Continue != "" {
			remarks = append(remarks, fmt.Sprintf("There are more than %d %s: \"kubectl get events\" lists all.", eventsMax, p.title))
		}
	}
	slices.SortStableFunc(found, func(a, b event) int {
		return cmp.Or(a.Last.Compare(b.Last.Time), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason))
	})
	return found, remarks, nil
}

func newEventRecord(e *corev1.Event) event {
	t := event{
		Last: metav1.NewTime(hub.LastSeen(e)), Count: e.Count, Type: e.Type, Reason: e.Reason, Object: e.InvolvedObject.Kind + " " + e.InvolvedObject.Name,
		From: cmp.Or(e.ReportingController, e.Source.Component), Message: strings.Join(strings.Fields(e.Message), " "),
	}
	if e.InvolvedObject.Namespace != "" {
		t.Object = e.InvolvedObject.Kind + " " + e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
	}
	if e.Series != nil {
		t.Count = max(t.Count, e.Series.Count)
	}
	return t
}

func (c *eventsCommand) formatEvents(found []event) string {
	if len(found) == 0 {
		return ""
	}
	rows := [][]string{{"LAST SEEN", "TYPE", "REASON", "OBJECT", "FROM", "MESSAGE"}}
	for _, e := range found {
		seen := duration.HumanDuration(c.session.Clock.Since(e.Last.Time))
		if e.Count > 1 {
			seen += fmt.Sprintf(" (%d times)", e.Count)
		}
		rows = append(rows, []string{seen, e.Type, e.Reason, e.Object, e.From, e.Message})
	}
	return columns.FormatTable(rows)
}
