// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	sigsyaml "sigs.k8s.io/yaml"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// outputFormat is the format that a command prints.
type outputFormat string

func (f *outputFormat) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(f), "output", "o", "", "Output format. One of: (json, yaml)")
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

func (f outputFormat) checkFormat() error {
	if f != "" && f != "json" && f != "yaml" {
		return exit.UsageError("--output: unknown format %q; the formats are json and yaml", string(f))
	}
	return nil
}

// printFormatted prints what was found, or the text without a format.
func (f outputFormat) printFormatted(session *hub.Session, found any, text func() string) error {
	var printed []byte
	var err error
	switch f {
	case "json":
		printed, err = json.MarshalIndent(found, "", "    ")
		printed = append(printed, '\n')
	case "yaml":
		printed, err = sigsyaml.Marshal(found)
	default:
		printed = []byte(text())
	}
	if err != nil {
		return fmt.Errorf("print the explanation: %w", err)
	}
	if _, err := session.Out.Write(printed); err != nil {
		return fmt.Errorf("print the explanation: %w", err)
	}
	return nil
}

func (e *explainCommand) formatOutcome(o *placementOutcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Placement %s/%s, as of now: %s\n", o.Namespace, o.Placement, o.formatHeadline())
	o.printProblems(&b)
	switch {
	case e.cluster != "" && len(o.Clusters) == 1:
		o.Clusters[0].printVerdict(&b, func(t time.Time) string { return duration.HumanDuration(e.session.Clock.Since(t)) })
	case len(o.Clusters) > 0:
		b.WriteString(columns.FormatTable(o.verdictRows()))
	}
	o.printDifference(&b)
	o.printNotes(&b, e.session.Clock.Now())
	return b.String()
}

// formatHeadline is the sum of it all.
func (o *placementOutcome) formatHeadline() string {
	if i := slices.IndexFunc(o.Conditions, func(c condition) bool { return c.Type == clusterv1beta1.PlacementConditionSatisfied }); i >= 0 {
		return o.Conditions[i].Message
	}
	stays := "nothing is chosen"
	if len(o.Stays) > 0 {
		stays = "what is chosen stays: " + strings.Join(o.Stays, ", ")
	}
	return "its spec is invalid, so " + stays
}

// printProblems prints the conditions that are not as they should be.
func (o *placementOutcome) printProblems(to io.Writer) {
	for _, c := range o.Conditions {
		switch {
		case c.Type == clusterv1beta1.PlacementConditionSatisfied && c.Status != metav1.ConditionTrue:
			fmt.Fprintf(to, "%s=%s (%s)\n", c.Type, c.Status, c.Reason)
		case c.Type == clusterv1beta1.PlacementConditionMisconfigured && c.Status == metav1.ConditionTrue:
			fmt.Fprintf(to, "%s=%s (%s):\n", c.Type, c.Status, c.Reason)
			for _, mistake := range o.Mistakes {
				fmt.Fprintf(to, "  %s\n", mistake)
			}
		}
	}
}

// verdictRows returns a line for each cluster.
func (o *placementOutcome) verdictRows() [][]string {
	rows := [][]string{{"CLUSTER", "CHOSEN", "GROUP", "RANK", "SCORE", "REASON"}}
	for _, v := range o.Clusters {
		row := []string{v.Name, yesNo(v.Chosen), v.groupCell(), "", "", v.Reason}
		if v.Rank > 0 {
			row[3], row[4] = fmt.Sprint(v.Rank), fmt.Sprint(*v.Score)
		}
		if v.Chosen {
			row[5] = ""
		}
		rows = append(rows, row)
	}
	return rows
}

// groupCell is the number of the group, with its name if it has one.
func (v clusterVerdict) groupCell() string {
	if v.Group == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", *v.Group, v.GroupName))
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// printVerdict prints all that there is to tell about one cluster.
func (v clusterVerdict) printVerdict(to io.Writer, age func(time.Time) string) {
	if v.Chosen {
		fmt.Fprintf(to, "Cluster %s is chosen, group %s\n\n", v.Name, v.groupCell())
	} else {
		fmt.Fprintf(to, "Cluster %s is not chosen: %s\n\n", v.Name, columns.OneLine(v.Reason)) // values of taints are any text
	}
	rows := [][]string{{"FILTER", "PASSED", "REASON"}}
	for _, f := range v.Filters {
		row := []string{f.Filter, yesNo(f.Passed), ""}
		for _, objection := range f.Objections {
			row[2] = objection
			rows = append(rows, row)
			row = []string{"", "", ""}
		}
		if f.Passed {
			rows = append(rows, row)
		}
	}
	fmt.Fprint(to, columns.FormatTable(rows))
	if v.Rank > 0 {
		rows = [][]string{{"PRIORITIZER", "WEIGHT", "SCORE", "WEIGHTED"}}
		for _, s := range v.Scores {
			rows = append(rows, []string{s.Prioritizer, fmt.Sprint(s.Weight), fmt.Sprint(s.Score), fmt.Sprint(int64(s.Weight) * int64(s.Score))})
		}
		fmt.Fprintf(to, "\n%sIts score is %d, its rank %d\n", columns.FormatTable(rows), *v.Score, v.Rank)
	}
	if len(v.Taints) > 0 {
		fmt.Fprintln(to)
	}
	for _, t := range v.Taints {
		since := ""
		if t.Since != nil {
			since = fmt.Sprintf(" (added %s ago)", age(t.Since.Time))
		}
		fmt.Fprintf(to, "It has taint %s%s\n", columns.OneLine(t.Taint), since)
	}
}

// printDifference says what of the decisions that are written is different.
func (o *placementOutcome) printDifference(to io.Writer) {
	if o.Difference.isEmpty() {
		return
	}
	var parts []string
	for _, change := range []struct {
		sign  string
		names []string
	}{{"+", o.Difference.Add}, {"-", o.Difference.Remove}, {"~", o.Difference.Move}} {
		for _, name := range change.names {
			parts = append(parts, change.sign+name)
		}
	}
	fmt.Fprintf(to, "The stored decision is a different one. Compared with it: %s\n", strings.Join(parts, " "))
}

func (o *placementOutcome) printNotes(to io.Writer, now time.Time) {
	for _, note := range o.Notes {
		fmt.Fprintln(to, note)
	}
	if o.Again != nil {
		fmt.Fprintf(to, "In %s a toleration or a score expires, and the decision is made again.\n", duration.HumanDuration(o.Again.Sub(now)))
	}
	for _, what := range o.Unread {
		fmt.Fprintf(to, "You may not read %s.\n", what)
	}
}
