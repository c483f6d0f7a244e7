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

func (v *view) print(to io.Writer, c clock.PassiveClock) error {
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

// line ends the table before it and prints a label with its value.
func (p *page) line(label, value string) {
	p.flush()
	if label != "" {
		label += ":"
	}
	fmt.Fprintf(p, "%-*s%s\n", labelWidth, label, orNone(columns.OneLine(value)))
}

// row adds a row to the table of a section.
func (p *page) row(cells ...string) { p.table = append(p.table, cells) }

// flush prints the table.
func (p *page) flush() {
	fmt.Fprint(p, columns.Section(p.table))
	p.table = nil
}

func (p *page) ago(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(p.clock.Since(t))
}

// pairs prints a map, a line for each pair.
func (p *page) pairs(label string, pairs map[string]string) {
	if len(pairs) == 0 {
		p.line(label, "")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		p.line(label, key+"="+pairs[key])
		label = ""
	}
}

// section prints the heading of a section, and tells whether it has anything.
func (v *view) section(p *page, label string, entries int) bool {
	switch err := v.unread[label]; {
	case err != nil:
		p.line(label, fmt.Sprintf("<cannot be read: %v>", err))
		return false
	case entries == 0:
		p.line(label, "")
		return false
	}
	p.flush()
	fmt.Fprintf(p, "%s:\n", label)
	return true
}

func (v *view) printSummary(p *page) {
	f := fleet.Of(v.cluster, v.connection)
	state := health.Cluster(v.cluster)
	p.line("Name", v.cluster.Name)
	p.pairs("Labels", v.cluster.Labels)
	p.pairs("Annotations", v.cluster.Annotations)
	p.line("Created", p.ago(v.cluster.CreationTimestamp.Time)+" ago")
	p.line("Ready", string(state.Ready))
	if state.Ready != metav1.ConditionTrue {
		p.line("  Because", state.Reason+": "+state.Message)
	}
	p.line("Accepted", fmt.Sprint(v.cluster.Spec.HubAcceptsClient))
	p.line("Mode", string(f.Mode))
	p.line("Kubernetes", f.Version)
	p.line("Provider", byWhom(f.Provider, f.Reported.Provider))
	p.line("Region", byWhom(f.Region, f.Reported.Region))
	p.line("Zones", byWhom(strings.Join(f.Zones, ","), f.Reported.Zones))
	p.line("Endpoint", strings.Join(f.Endpoints, ","))
	p.line("Identity", f.Identity())
	p.line("Nodes", nodes(f))
	p.line("APIs", apis(f))
	p.line(sectionHeartbeat, v.heartbeat(p))
}

// byWhom marks what the hub knows from the cluster alone.
func byWhom(value string, reported bool) string {
	if reported {
		return value + " (reported by the cluster)"
	}
	return value
}

func nodes(f fleet.Cluster) string {
	if f.Nodes == nil {
		return ""
	}
	return fmt.Sprintf("%d, of which %d are ready", f.Nodes.Total, f.Nodes.Ready)
}

func apis(f fleet.Cluster) string {
	if f.GroupVersions == 0 {
		return ""
	}
	return fmt.Sprintf("%d resources in %d groups and versions", f.Resources, f.GroupVersions)
}

func (v *view) heartbeat(p *page) string {
	every := fmt.Sprintf("expected every %ds", v.cluster.Spec.LeaseDurationSeconds)
	switch err := v.unread[sectionHeartbeat]; {
	case err != nil:
		return fmt.Sprintf("<cannot be read: %v>", err)
	case v.lease == nil || v.lease.Spec.RenewTime == nil:
		return ""
	}
	return fmt.Sprintf("%s ago, %s", p.ago(v.lease.Spec.RenewTime.Time), every)
}

func (v *view) printConditions(p *page) {
	if v.section(p, "Conditions", len(v.cluster.Status.Conditions)) {
		p.conditions(v.cluster.Status.Conditions)
	}
}

// printConnection prints how hub and cluster reach each other, if that is said
// anywhere.
func (v *view) printConnection(p *page) {
	if v.connection == nil && v.unread[sectionConnection] == nil {
		return
	}
	entries := 0
	if v.connection != nil {
		entries = len(v.connection.Status.Conditions)
	}
	if v.section(p, sectionConnection, entries) {
		p.conditions(v.connection.Status.Conditions)
	}
}

func (p *page) conditions(conditions []metav1.Condition) {
	p.row("Type", "Status", "Since", "Reason", "Message")
	p.row("----", "------", "-----", "------", "-------")
	for _, c := range health.Sorted(conditions) {
		p.row(c.Type, string(c.Status), p.ago(c.LastTransitionTime.Time), c.Reason, c.Message)
	}
}

func (v *view) printTaints(p *page) {
	if !v.section(p, "Taints", len(v.cluster.Spec.Taints)) {
		return
	}
	for _, t := range v.cluster.Spec.Taints {
		text := t.Key + ":" + string(t.Effect)
		added := ""
		if t.Value != "" {
			text = t.Key + "=" + t.Value + ":" + string(t.Effect)
		}
		if !t.TimeAdded.IsZero() {
			added = "added " + p.ago(t.TimeAdded.Time) + " ago"
		}
		p.row(text, added)
	}
}

func (v *view) printResources(p *page) {
	if !v.section(p, "Resources", len(v.cluster.Status.Capacity)) {
		return
	}
	p.row("Resource", "Capacity", "Allocatable")
	p.row("--------", "--------", "-----------")
	for _, name := range slices.Sorted(maps.Keys(v.cluster.Status.Capacity)) {
		capacity := v.cluster.Status.Capacity[name]
		allocatable := "<none>"
		if amount, ok := v.cluster.Status.Allocatable[name]; ok {
			allocatable = amount.String()
		}
		p.row(string(name), capacity.String(), allocatable)
	}
}

func (v *view) printClaims(p *page) {
	claims := fleet.Claims(v.cluster)
	pinned := fleet.PinnedClaims(v.cluster)
	if !v.section(p, "Claims", len(claims)) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		by := ""
		if _, ok := pinned[name]; ok {
			by = "pinned by the hub"
		}
		p.row(name+":", claims[name], by)
	}
}

func (v *view) printWorks(p *page) {
	if !v.section(p, sectionWorks, len(v.works)) {
		return
	}
	works := slices.Clone(v.works)
	p.row("Name", "Objects", "Ready", "Age", "Because")
	p.row("----", "-------", "-----", "---", "-------")
	for i := range works {
		state := health.Work(&works[i])
		because := ""
		if state.Ready != metav1.ConditionTrue {
			because = state.Reason + ": " + state.Message
		}
		p.row(works[i].Name, fmt.Sprint(len(works[i].Spec.Workload.Manifests)), string(state.Ready), p.ago(works[i].CreationTimestamp.Time), because)
	}
}

func (v *view) printRequests(p *page) {
	pending := slices.DeleteFunc(slices.Clone(v.requests), func(r certificatesv1.CertificateSigningRequest) bool {
		return !requests.Pending(&r)
	})
	if !v.section(p, sectionRequests, len(pending)) {
		return
	}
	keys := map[string]string{}
	for _, ready := range requests.Sort(v.cluster.Name, v.requests).Ready {
		keys[ready.Request.Name] = ready.Key
	}
	p.row("Name", "Age", "Requested By", "Key")
	p.row("----", "---", "------------", "---")
	for i := range pending {
		p.row(pending[i].Name, p.ago(pending[i].CreationTimestamp.Time), pending[i].Spec.Username, orNone(keys[pending[i].Name]))
	}
	p.flush()
	fmt.Fprintln(p, "  The right one has the key that \"kubectl describe klusterlet\" shows on the cluster.")
}

func (v *view) printEvents(p *page) {
	if !v.section(p, sectionEvents, len(v.events)) {
		return
	}
	events := slices.Clone(v.events)
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return cmp.Or(hub.LastSeen(&a).Compare(hub.LastSeen(&b)), cmp.Compare(a.Name, b.Name))
	})
	p.row("Type", "Reason", "Age", "From", "Message")
	p.row("----", "------", "---", "----", "-------")
	for _, e := range events {
		p.row(e.Type, e.Reason, p.ago(hub.LastSeen(&e)), cmp.Or(e.ReportingController, e.Source.Component), e.Message)
	}
}

func orNone(value string) string {
	if value == "" {
		return "<none>"
	}
	return value
}
