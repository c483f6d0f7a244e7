// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/requests"
	fleet "github.com/capstan-io/capstan/internal/cluster/view"
)

// The sections that may not be readable for the user.
const (
	sectionConnection = "Connection"
	sectionHeartbeat  = "Last Heartbeat"
	sectionWorks      = "Works"
	sectionRequests   = "Certificate Requests"
	sectionEvents     = "Events"
)

// labelWidth is the number of characters that the labels of a description
// take, so that their values stand below each other.
const labelWidth = 22

// page is a description on its way to the user.
type page struct {
	strings.Builder
	clock clock.PassiveClock
	// table has the rows of the section that is being printed.
	table [][]string
}

func (v *clusterView) printDescription(to io.Writer, c clock.PassiveClock) error {
	p := &page{clock: c}
	v.printSummary(p)
	v.printConditions(p)
	v.printConnection(p)
	v.printTaints(p)
	v.printResources(p)
	v.printClaims(p)
	v.printWorks(p)
	v.printRequests(p)
	v.printEvents(p)
	p.flush()
	_, err := io.WriteString(to, p.String())
	return err
}

// printField ends the table before it and prints a label with its value.
func (p *page) printField(label, value string) {
	p.flush()
	if label != "" {
		label += ":"
	}
	fmt.Fprintf(p, "%-*s%s\n", labelWidth, label, orNone(columns.OneLine(value)))
}

// addTableRow adds a row to the table of a section.
func (p *page) addTableRow(cells ...string) { p.table = append(p.table, cells) }

// flush prints the table.
func (p *page) flush() {
	fmt.Fprint(p, columns.FormatSection(p.table))
	p.table = nil
}

func (p *page) formatAge(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(p.clock.Since(t))
}

// pairs prints a map, a line for each pair.
func (p *page) pairs(label string, pairs map[string]string) {
	if len(pairs) == 0 {
		p.printField(label, "")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		p.printField(label, key+"="+pairs[key])
		label = ""
	}
}

// printSectionHeading prints the heading of a section, and reports whether it has anything.
func (v *clusterView) printSectionHeading(p *page, label string, entries int) bool {
	switch err := v.unread[label]; {
	case err != nil:
		p.printField(label, fmt.Sprintf("<cannot be read: %v>", err))
		return false
	case entries == 0:
		p.printField(label, "")
		return false
	}
	p.flush()
	fmt.Fprintf(p, "%s:\n", label)
	return true
}

func (v *clusterView) printSummary(p *page) {
	f := fleet.FromCluster(v.cluster, v.connection)
	state := health.ClusterReadiness(v.cluster)
	p.printField("Name", v.cluster.Name)
	p.pairs("Labels", v.cluster.Labels)
	p.pairs("Annotations", v.cluster.Annotations)
	p.printField("Created", p.formatAge(v.cluster.CreationTimestamp.Time)+" ago")
	p.printField("Ready", string(state.Ready))
	if state.Ready != metav1.ConditionTrue {
		p.printField("  Because", state.Reason+": "+state.Message)
	}
	p.printField("Accepted", fmt.Sprint(v.cluster.Spec.HubAcceptsClient))
	p.printField("Mode", string(f.Mode))
	p.printField("Kubernetes", f.Version)
	p.printField("Provider", byWhom(f.Provider, f.Reported.Provider))
	p.printField("Region", byWhom(f.Region, f.Reported.Region))
	p.printField("Zones", byWhom(strings.Join(f.Zones, ","), f.Reported.Zones))
	p.printField("Endpoint", strings.Join(f.Endpoints, ","))
	p.printField("Identity", f.KnownIdentity())
	p.printField("Nodes", formatNodes(f))
	p.printField("APIs", formatAPIs(f))
	p.printField(sectionHeartbeat, v.heartbeat(p))
}

// byWhom marks what the hub knows from the cluster alone.
func byWhom(value string, reported bool) string {
	if reported {
		return value + " (reported by the cluster)"
	}
	return value
}

func formatNodes(f fleet.Cluster) string {
	if f.Nodes == nil {
		return ""
	}
	return fmt.Sprintf("%d, of which %d are ready", f.Nodes.Total, f.Nodes.Ready)
}

func formatAPIs(f fleet.Cluster) string {
	if f.GroupVersions == 0 {
		return ""
	}
	return fmt.Sprintf("%d resources in %d groups and versions", f.Resources, f.GroupVersions)
}

func (v *clusterView) heartbeat(p *page) string {
	every := fmt.Sprintf("expected every %ds", v.cluster.Spec.LeaseDurationSeconds)
	switch err := v.unread[sectionHeartbeat]; {
	case err != nil:
		return fmt.Sprintf("<cannot be read: %v>", err)
	case v.lease == nil || v.lease.Spec.RenewTime == nil:
		return ""
	}
	return fmt.Sprintf("%s ago, %s", p.formatAge(v.lease.Spec.RenewTime.Time), every)
}

func (v *clusterView) printConditions(p *page) {
	if v.printSectionHeading(p, "Conditions", len(v.cluster.Status.Conditions)) {
		p.printConditionRows(v.cluster.Status.Conditions)
	}
}

// printConnection prints how hub and cluster reach each other, if that is said
// anywhere.
func (v *clusterView) printConnection(p *page) {
	if v.connection == nil && v.unread[sectionConnection] == nil {
		return
	}
	entries := 0
	if v.connection != nil {
		entries = len(v.connection.Status.Conditions)
	}
	if v.printSectionHeading(p, sectionConnection, entries) {
		p.printConditionRows(v.connection.Status.Conditions)
	}
}

func (p *page) printConditionRows(conditions []metav1.Condition) {
	p.addTableRow("Type", "Status", "Since", "Reason", "Message")
	p.addTableRow("----", "------", "-----", "------", "-------")
	for _, c := range health.SortConditions(conditions) {
		p.addTableRow(c.Type, string(c.Status), p.formatAge(c.LastTransitionTime.Time), c.Reason, c.Message)
	}
}

func (v *clusterView) printTaints(p *page) {
	if !v.printSectionHeading(p, "Taints", len(v.cluster.Spec.Taints)) {
		return
	}
	for _, t := range v.cluster.Spec.Taints {
		text := t.Key + ":" + string(t.Effect)
		added := ""
		if t.Value != "" {
			text = t.Key + "=" + t.Value + ":" + string(t.Effect)
		}
		if !t.TimeAdded.IsZero() {
			added = "added " + p.formatAge(t.TimeAdded.Time) + " ago"
		}
		p.addTableRow(text, added)
	}
}

func (v *clusterView) printResources(p *page) {
	if !v.printSectionHeading(p, "Resources", len(v.cluster.Status.Capacity)) {
		return
	}
	p.addTableRow("Resource", "Capacity", "Allocatable")
	p.addTableRow("--------", "--------", "-----------")
	for _, name := range slices.Sorted(maps.Keys(v.cluster.Status.Capacity)) {
		capacity := v.cluster.Status.Capacity[name]
		allocatable := "<none>"
		if amount, ok := v.cluster.Status.Allocatable[name]; ok {
			allocatable = amount.String()
		}
		p.addTableRow(string(name), capacity.String(), allocatable)
	}
}

func (v *clusterView) printClaims(p *page) {
	claims := fleet.ClaimsOf(v.cluster)
	pinned := fleet.PinnedClaims(v.cluster)
	if !v.printSectionHeading(p, "Claims", len(claims)) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		by := ""
		if _, ok := pinned[name]; ok {
			by = "pinned by the hub"
		}
		p.addTableRow(name+":", claims[name], by)
	}
}

func (v *clusterView) printWorks(p *page) {
	if !v.printSectionHeading(p, sectionWorks, len(v.works)) {
		return
	}
	works := slices.Clone(v.works)
	p.addTableRow("Name", "Objects", "Ready", "Age", "Because")
	p.addTableRow("----", "-------", "-----", "---", "-------")
	for i := range works {
		state := health.WorkReadiness(&works[i])
		because := ""
		if state.Ready != metav1.ConditionTrue {
			because = state.Reason + ": " + state.Message
		}
		p.addTableRow(works[i].Name, fmt.Sprint(len(works[i].Spec.Workload.Manifests)), string(state.Ready), p.formatAge(works[i].CreationTimestamp.Time), because)
	}
}

func (v *clusterView) printRequests(p *page) {
	pending := slices.DeleteFunc(slices.Clone(v.requests), func(r certificatesv1.CertificateSigningRequest) bool {
		return !requests.IsPending(&r)
	})
	if !v.printSectionHeading(p, sectionRequests, len(pending)) {
		return
	}
	keys := map[string]string{}
	for _, ready := range requests.Sort(v.cluster.Name, v.requests).Ready {
		keys[ready.Request.Name] = ready.Key
	}
	p.addTableRow("Name", "Age", "Requested By", "Key")
	p.addTableRow("----", "---", "------------", "---")
	for i := range pending {
		p.addTableRow(requests.PrintableName(&pending[i]), p.formatAge(pending[i].CreationTimestamp.Time), pending[i].Spec.Username, orNone(keys[pending[i].Name]))
	}
	p.flush()
	fmt.Fprintln(p, "  The right one has the key that \"kubectl describe klusterlet\" shows on the cluster.")
}

func (v *clusterView) printEvents(p *page) {
	if !v.printSectionHeading(p, sectionEvents, len(v.events)) {
		return
	}
	events := slices.Clone(v.events)
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return cmp.Or(hub.LastSeen(&a).Compare(hub.LastSeen(&b)), cmp.Compare(a.Name, b.Name))
	})
	p.addTableRow("Type", "Reason", "Age", "From", "Message")
	p.addTableRow("----", "------", "---", "----", "-------")
	for _, e := range events {
		p.addTableRow(e.Type, e.Reason, p.formatAge(hub.LastSeen(&e)), cmp.Or(e.ReportingController, e.Source.Component), e.Message)
	}
}

func orNone(value string) string {
	if value == "" {
		return "<none>"
	}
	return value
}
