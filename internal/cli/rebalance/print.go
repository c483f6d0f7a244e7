// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"strings"

	"github.com/capstan-io/capstan/internal/cli/columns"
)

// formatReport returns what there is to say, for people.
func (r *WorkloadsReport) formatReport(suffix string) string {
	var parts []string
	for _, w := range r.Workloads {
		parts = append(parts, w.formatWorkload(r))
	}
	var b strings.Builder
	for _, what := range r.Unread {
		fmt.Fprintf(&b, "You may not read %s.\n", what)
	}
	switch {
	case suffix != "":
		fmt.Fprintf(&b, "Nothing has been changed%s.\n", suffix)
	case r.Rebalancer != "":
		fmt.Fprintf(&b, "workloadrebalancer.apps.karmada.io/%s created\n", r.Rebalancer)
	}
	if b.Len() > 0 {
		parts = append(parts, b.String())
	}
	return strings.Join(parts, "\n")
}

func (w WorkloadMoves) formatWorkload(r *WorkloadsReport) string {
	var b strings.Builder
	name := w.Name
	if w.Namespace != "" {
		name = w.Namespace + "/" + name
	}
	fmt.Fprintf(&b, "%s %s: %s\n", w.Kind, name, w.formatHeadline(r))
	if w.Problem != "" {
		fmt.Fprintf(&b, "! %s\n", columns.OneLine(w.Problem))
	}
	if len(w.Clusters) > 0 {
		b.WriteString(columns.FormatTable(w.clusterRows()))
	}
	for _, note := range w.Notes {
		fmt.Fprintln(&b, note)
	}
	return b.String()
}

// formatHeadline is the sum of it all.
func (w WorkloadMoves) formatHeadline(r *WorkloadsReport) string {
	come := 0
	leave := 0
	for _, c := range w.Clusters {
		switch c.Change {
		case gained:
			come++
		case lost:
			leave++
		}
	}
	verb := chooseText(r.Expected, "would move", "moved")
	switch {
	case w.Problem != "" && w.Moves == 0 && come+leave == 0:
		return "it " + chooseText(r.Expected, "would stay", "stays") + " where it is"
	case w.Moves == 0 && come+leave == 0:
		return "nothing " + verb
	case w.scales:
		text := fmt.Sprintf("%d replicas %s", w.Moves, verb)
		if w.Moves == 1 {
			text = "1 replica " + verb
		}
		return text + formatClusterCounts(come, leave)
	default:
		return "it " + verb + formatClusterCounts(come, leave)
	}
}

// formatClusterCounts says how many of them come and go.
func formatClusterCounts(come, leave int) string {
	var parts []string
	for _, each := range []struct {
		n    int
		what string
	}{{come, gained}, {leave, lost}} {
		if each.n == 1 {
			parts = append(parts, "1 cluster "+each.what)
		} else if each.n > 1 {
			parts = append(parts, fmt.Sprintf("%d clusters %s", each.n, each.what))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, ", ")
}

func (w WorkloadMoves) clusterRows() [][]string {
	rows := [][]string{{"", "CLUSTER"}}
	if w.scales {
		rows[0] = append(rows[0], "REPLICAS")
	}
	for _, c := range w.Clusters {
		row := []string{changeSign(c.Change), c.Name}
		switch {
		case !w.scales:
		case c.Before == c.After:
			row = append(row, fmt.Sprint(c.After))
		default:
			row = append(row, fmt.Sprintf("%d -> %d", c.Before, c.After))
		}
		rows = append(rows, row)
	}
	return rows
}

func changeSign(change string) string {
	switch change {
	case gained:
		return "+"
	case lost:
		return "-"
	case changed:
		return "~"
	default:
		return ""
	}
}

func chooseText(is bool, one, other string) string {
	if is {
		return one
	}
	return other
}
