// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/propagation/forecast"
)

// FormatText returns what there is to say, for people; "" if nothing was looked at.
func (p *Preview) FormatText() string {
	var parts []string
	var b strings.Builder
	for _, one := range p.policies {
		one.printPolicy(&b)
	}
	if b.Len() > 0 {
		parts = append(parts, b.String())
	}
	for _, o := range p.objects {
		parts = append(parts, o.formatObject())
	}
	if last := p.formatSummary(); last != "" {
		parts = append(parts, last)
	}
	return strings.Join(parts, "\n")
}

// formatSummary says what is about all of it.
func (p *Preview) formatSummary() string {
	var b strings.Builder
	switch {
	case len(p.policies)+len(p.objects) == 0:
	case len(p.objects) == 0 && p.rest == 0:
		b.WriteString("Nothing would change: no object on the hub is concerned.\n")
	case len(p.objects) == 0:
		fmt.Fprintf(&b, "Nothing would change: %s concerned, and would stay as %s.\n", countNoun(p.rest, "object is", "objects are"), singularOrPlural(p.rest, "it is", "they are"))
	case p.rest > 0:
		fmt.Fprintf(&b, "%s concerned, too, and would stay as %s.\n", countNoun(p.rest, "other object is", "other objects are"), singularOrPlural(p.rest, "it is", "they are"))
	}
	for _, what := range p.unread {
		fmt.Fprintf(&b, "You may not read %s.\n", what)
	}
	return b.String()
}

func countNoun(n int, one, many string) string {
	return fmt.Sprintf("%d %s", n, singularOrPlural(n, one, many))
}

func singularOrPlural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func (one policyPreview) printPolicy(b *strings.Builder) {
	fmt.Fprintf(b, "%s (%s)", qualifiedName(one.Kind, one.Namespace, one.Name), one.Change)
	if one.Selects != nil {
		fmt.Fprintf(b, " selects %s", countNoun(*one.Selects, "object", "objects"))
		if *one.Claims < *one.Selects {
			fmt.Fprintf(b, ", of which it would claim %d: others belong to other policies", *one.Claims)
		}
	}
	b.WriteString("\n")
	for _, problem := range one.Problems {
		fmt.Fprintf(b, "! %s\n", problem)
	}
	for _, note := range one.Notes {
		fmt.Fprintf(b, "  %s\n", note)
	}
}

func (o objectPreview) formatObject() string {
	var b strings.Builder
	b.WriteString(qualifiedName(o.Kind, o.Namespace, o.Name))
	if o.Change != "" {
		fmt.Fprintf(&b, " (%s)", o.Change)
	}
	fmt.Fprintf(&b, ", as of now: %s\n", o.formatHeadline())
	for _, problem := range o.Problems {
		fmt.Fprintf(&b, "! %s\n", columns.OneLine(problem))
	}
	if len(o.Clusters) > 0 {
		b.WriteString(columns.FormatTable(o.clusterRows()))
	}
	b.WriteString(o.alongText())
	for _, note := range o.Notes {
		fmt.Fprintln(&b, note)
	}
	b.WriteString(o.diffs())
	return b.String()
}

// formatHeadline is the sum of it all.
func (o objectPreview) formatHeadline() string {
	var counts []string
	for _, change := range []string{forecast.Gained, forecast.Lost, forecast.Changed, forecast.Stuck} {
		n := 0
		for _, c := range o.Clusters {
			if c.Change == change {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, countNoun(n, "cluster ", "clusters ")+change)
		}
	}
	text := strings.Join(counts, ", ")
	if text == "" {
		text = "nothing would change in any cluster"
	}
	return text + o.formatClaim()
}

func (o objectPreview) formatClaim() string {
	switch now, then := o.ClaimedBy.Now, o.ClaimedBy.Then; {
	case now == "" && then == "":
		return "; no policy sends it to clusters"
	case now == then:
		return "; by " + then
	case now == "":
		return "; " + then + " would claim it"
	case then == "":
		return "; " + now + " would release it"
	default:
		return "; " + then + " would claim it, instead of " + now
	}
}

// column is a column of the table of clusters.
type column struct {
	head string
	cell func(clusterPreview) string
}

// clusterRows has a row for each cluster, and only columns that say something.
func (o objectPreview) clusterRows() [][]string {
	all := []column{
		{"REPLICAS", replicasCell},
		{"OVERRIDES", func(c clusterPreview) string { return strings.Join(c.Overrides, ", ") }},
		{"REASON", reasonCell},
	}
	all = slices.DeleteFunc(all, func(col column) bool {
		return !slices.ContainsFunc(o.Clusters, func(c clusterPreview) bool { return col.cell(c) != "" })
	})
	rows := [][]string{{"", "CLUSTER"}}
	for _, col := range all {
		rows[0] = append(rows[0], col.head)
	}
	for _, c := range o.Clusters {
		row := []string{changeSign(c.Change), c.Name}
		for _, col := range all {
			row = append(row, col.cell(c))
		}
		rows = append(rows, row)
	}
	return rows
}

func changeSign(change string) string {
	switch change {
	case forecast.Gained:
		return "+"
	case forecast.Lost:
		return "-"
	case forecast.Changed:
		return "~"
	case forecast.Stuck:
		return "!"
	default:
		return ""
	}
}

func replicasCell(c clusterPreview) string {
	switch {
	case c.Replicas == nil:
		return ""
	case c.Replicas.Now == c.Replicas.Then:
		return fmt.Sprint(c.Replicas.Now)
	default:
		return fmt.Sprintf("%d -> %d", c.Replicas.Now, c.Replicas.Then)
	}
}

func reasonCell(c clusterPreview) string {
	switch {
	case c.Change == forecast.Stuck:
		return "it keeps what it has"
	case c.Reason == "" && c.other:
		return "another manifest"
	}
	return c.Reason
}
