// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
)

// FormatText returns the trace for people.
func (t *Trace) FormatText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, as of now: %s\n", t.Object, t.Summary)
	b.WriteString(columns.FormatTable(t.stepRows()))
	if len(t.Clusters) > 0 {
		fmt.Fprintln(&b)
		b.WriteString(columns.FormatTable(t.clusterRows()))
	}
	if len(t.Notes)+len(t.Unread) > 0 {
		fmt.Fprintln(&b)
	}
	for _, note := range t.Notes {
		fmt.Fprintln(&b, columns.OneLine(note)) // what a script refuses repeats what members report
	}
	for _, what := range t.Unread {
		fmt.Fprintf(&b, "You may not read %s.\n", what)
	}
	return b.String()
}

// stepRows are the steps up to the clusters, a line each, with what matters to a
// step below it.
func (t *Trace) stepRows() [][]string {
	var rows [][]string
	add := func(step, text string) { rows = append(rows, []string{step, text}) }
	switch {
	case t.ClaimedBy == nil:
		add("Policy", "none")
	case t.ClaimedBy.Reason != "":
		add("Policy", fmt.Sprintf("%s claims it, but %s", t.ClaimedBy, t.ClaimedBy.Reason))
	default:
		add("Policy", fmt.Sprintf("%s claims it, and selects it by %s", t.ClaimedBy, t.ClaimedBy.SelectsBy))
	}
	for _, p := range t.Candidates {
		switch {
		case p.SelectsBy == "":
			add("", fmt.Sprintf("%s does not select it: %s", p, p.Reason))
		case p.Reason != "":
			add("", fmt.Sprintf("%s selects it, too: %s", p, p.Reason))
		default:
			add("", fmt.Sprintf("%s selects it by %s", p, p.SelectsBy))
		}
	}
	return append(append(rows, t.boundBy()...), t.interpretedBy()...)
}

// boundBy are the lines about the binding.
func (t *Trace) boundBy() [][]string {
	if t.Binding == nil {
		return [][]string{{"Binding", "none"}}
	}
	var rows [][]string
	add := func(step, text string) { rows = append(rows, []string{step, text}) }
	add("Binding", qualifiedName(t.Binding.Kind, t.Binding.Namespace, t.Binding.Name))
	for _, c := range t.Binding.Conditions {
		add("", fmt.Sprintf("%s=%s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
	}
	if t.Binding.Priority != nil {
		add("", fmt.Sprintf("Its priority is %d: it gets its clusters before those of a lower one", *t.Binding.Priority))
	}
	for _, by := range t.Binding.RequiredBy {
		add("", "It is sent along with the object of "+by)
	}
	return rows
}

// interpretedBy are the lines about who says what the object means.
func (t *Trace) interpretedBy() [][]string {
	var rows [][]string
	for _, source := range t.Interpreters {
		text := interpreters.FormatSources([]interpreters.Source{source})
		if len(t.Interpreters) == 1 && source.Name == "" {
			text = source.String()
		}
		rows = append(rows, []string{"", text})
	}
	if len(rows) > 0 {
		rows[0][0], rows[0][1] = "Kind", "interpreted by "+rows[0][1]
	}
	return rows
}

// column is a column of the table of clusters.
type column struct {
	head string
	cell func(ClusterTrace) string
}

// clusterRows has a row for each cluster, and only columns that say something.
func (t *Trace) clusterRows() [][]string {
	all := []column{
		{"CLUSTER", func(c ClusterTrace) string { return c.Name }},
		{"CHOSEN", func(c ClusterTrace) string { return yesNo(c.Chosen) }},
		{"REPLICAS", replicasCell},
		{"COMPONENTS", componentsCell},
		{"WORK", func(c ClusterTrace) string { return c.Work }},
		{"APPLIED", func(c ClusterTrace) string { return c.Applied }},
		{"OVERRIDES", func(c ClusterTrace) string { return strings.Join(c.Overrides, ", ") }},
		{"HEALTH", func(c ClusterTrace) string { return c.Health }},
		{"STATUS", func(c ClusterTrace) string { return health.BriefStatus(c.Status) }},
		{"SEEN", func(c ClusterTrace) string { return t.lastSeenCell(c) }},
		{"REASON", func(c ClusterTrace) string { return c.Reason }},
	}
	all = slices.DeleteFunc(all, func(col column) bool {
		return !slices.ContainsFunc(t.Clusters, func(c ClusterTrace) bool { return col.cell(c) != "" })
	})
	rows := make([][]string, 1+len(t.Clusters))
	for _, col := range all {
		rows[0] = append(rows[0], col.head)
		for i, c := range t.Clusters {
			rows[i+1] = append(rows[i+1], col.cell(c))
		}
	}
	return rows
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func replicasCell(c ClusterTrace) string {
	if c.Replicas == 0 {
		return ""
	}
	return fmt.Sprint(c.Replicas)
}

// componentsCell are the replicas of each part.
func componentsCell(c ClusterTrace) string {
	var all []string
	for _, part := range c.Components {
		all = append(all, fmt.Sprintf("%s %d", part.Name, part.Replicas))
	}
	return strings.Join(all, ", ")
}

// lastSeenCell says when the cluster was last heard of.
func (t *Trace) lastSeenCell(c ClusterTrace) string {
	switch {
	case c.Work == "" && len(c.Status) == 0:
		return ""
	case c.SilentSince == nil:
		return "now"
	default:
		return t.formatAge(c.SilentSince.Time)
	}
}

func (t *Trace) formatAge(when time.Time) string {
	return duration.HumanDuration(t.AsOf.Sub(when)) + " ago"
}

// SelectCluster leaves only one cluster; false if nothing is known of it.
func (t *Trace) SelectCluster(name string) bool {
	t.Clusters = slices.DeleteFunc(t.Clusters, func(c ClusterTrace) bool { return c.Name != name })
	return len(t.Clusters) == 1
}

// FormatDetail returns the rest of what there is to say about the only cluster.
func (t *Trace) FormatDetail() string {
	c := t.Clusters[0]
	var b strings.Builder
	if t.decided != nil {
		rows := [][]string{{"FILTER", "PASSED", "REASON"}}
		for _, check := range t.decided.FilterChecks(c.Name) {
			rows = append(rows, []string{check.Filter, yesNo(len(check.Objections) == 0), strings.Join(check.Objections, "; ")})
		}
		if len(rows) > 1 {
			fmt.Fprintf(&b, "\n%s", columns.FormatTable(rows))
		}
	}
	if len(c.Status) > 0 {
		text, err := sigsyaml.JSONToYAML(c.Status)
		if err != nil {
			text = c.Status
		}
		age := ""
		if c.SilentSince != nil {
			age = ", as it was " + t.formatAge(c.SilentSince.Time)
		}
		fmt.Fprintf(&b, "\nStatus in cluster %s%s:\n", c.Name, age)
		for line := range strings.Lines(string(text)) {
			b.WriteString("  " + line)
		}
	}
	return b.String()
}
