// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/doctor/diagnosis"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// doctorReport is what the command prints. Its fields are stable.
type doctorReport struct {
	Hub     string `json:"hub"`
	Cluster string `json:"cluster,omitempty"`
	// Mode is Pull or Push.
	Mode string `json:"mode,omitempty"`
	// Healthy says that nothing is broken, as far as it could be seen, and that
	// what matters could be.
	Healthy bool `json:"healthy"`
	// RootCause is the first finding that is broken.
	RootCause *rootCause       `json:"rootCause,omitempty"`
	Steps     []diagnosis.Step `json:"steps"`
	// Clusters have a line each, if no cluster was named.
	Clusters []line `json:"clusters,omitempty"`

	// memberSeen says that the user gave access to the member.
	memberSeen bool
}

// rootCause is a finding with the step that it is of.
type rootCause struct {
	Step  string `json:"step"`
	title string
	diagnosis.Finding
}

// line is a cluster with its first problem.
type line struct {
	Name  string          `json:"name"`
	Mode  string          `json:"mode,omitempty"`
	State diagnosis.State `json:"state"`
	First *rootCause      `json:"first,omitempty"`
}

func newReport(hub string, steps []diagnosis.Step) *doctorReport {
	r := &doctorReport{Hub: hub, Healthy: true, Steps: steps}
	if step, finding, broken := diagnosis.FindRootCause(steps); broken {
		r.Healthy = false
		r.RootCause = &rootCause{Step: step.Name, title: step.Title, Finding: finding}
	}
	if _, _, blind := diagnosis.FindBlindSpot(steps); blind {
		r.Healthy = false
	}
	return r
}

// addSteps adds steps that come after all clusters: one of them is the root cause only
// if the clusters are well.
func (r *doctorReport) addSteps(steps []diagnosis.Step) {
	r.Steps = append(r.Steps, steps...)
	step, finding, broken := diagnosis.FindRootCause(steps)
	if broken && r.Healthy {
		r.RootCause = &rootCause{Step: step.Name, title: step.Title, Finding: finding}
	}
	r.Healthy = r.Healthy && !broken
}

// setCluster says which cluster the report is about.
func (r *doctorReport) setCluster(c *evidence.ClusterEvidence, memberSeen bool) {
	r.Cluster, r.Mode, r.memberSeen = c.Name, connectionMode(c), memberSeen
}

func connectionMode(c *evidence.ClusterEvidence) string {
	if !c.Managed.Found || c.Connection.Err != nil {
		return ""
	}
	return string(view.FromCluster(c.Managed.Value, c.Connection.Value).Mode)
}

// addClusterLine adds a line for a cluster: what is broken, else what is odd.
func (r *doctorReport) addClusterLine(c *evidence.ClusterEvidence, steps []diagnosis.Step) {
	l := line{Name: c.Name, Mode: connectionMode(c), State: diagnosis.OK}
	for _, state := range []diagnosis.State{diagnosis.Broken, diagnosis.Odd, diagnosis.Unseen} {
		if first := firstOf(steps, state); first != nil {
			l.State = state
			l.First = first
			break
		}
	}
	r.Clusters = append(r.Clusters, l)
	if l.State == diagnosis.Broken {
		r.Healthy = false
	}
}

func firstOf(steps []diagnosis.Step, state diagnosis.State) *rootCause {
	for _, s := range steps {
		for _, f := range s.Findings {
			if f.State == state {
				return &rootCause{Step: s.Name, title: s.Title, Finding: f}
			}
		}
	}
	return nil
}

// exitError is the error that the command ends with: the root cause.
func (r *doctorReport) exitError() error {
	if r.RootCause != nil {
		code := exit.Failed
		if r.RootCause.Step == "hub/api" || r.RootCause.Reason == "NoHub" {
			code = exit.NoHub
		}
		about := ""
		if r.RootCause.Object != "" && code != exit.NoHub {
			about = r.RootCause.Object + ": "
		}
		return &exit.Error{Err: fmt.Errorf("the first broken step is %q: %s%s", r.RootCause.title, about, r.RootCause.Cause), Next: r.RootCause.Next, Code: code}
	}
	broken := 0
	first := ""
	for _, l := range r.Clusters {
		if l.State == diagnosis.Broken {
			broken++
			if first == "" {
				first = l.Name
			}
		}
	}
	if broken > 0 {
		return exit.Next(fmt.Errorf("the hub is healthy, but something is broken with %d of %d clusters", broken, len(r.Clusters)),
			"\"capstan doctor %s\" shows all steps of one, with --cluster-kubeconfig also those in the member.", first)
	}
	if step, finding, blind := diagnosis.FindBlindSpot(r.Steps); blind {
		code := exit.Failed
		if strings.HasPrefix(step.Name, diagnosis.OnMember) {
			code = exit.NoMember
		}
		return &exit.Error{Err: fmt.Errorf("nothing broken was found, but too little could be checked: %s: %s", finding.Object, finding.Cause), Next: finding.Next, Code: code}
	}
	return nil
}

func (r *doctorReport) printReport(to io.Writer, format string) error {
	var text []byte
	var err error
	switch format {
	case "json":
		text, err = json.MarshalIndent(r, "", "    ")
		text = append(text, '\n')
	case "yaml":
		text, err = sigsyaml.Marshal(r)
	default:
		text = []byte(r.formatReport())
	}
	if err != nil {
		return err
	}
	_, err = to.Write(text)
	return err
}

// placeWidth is the number of characters for the place of a step.
const placeWidth = len(diagnosis.OnCluster) + 2

func (r *doctorReport) formatReport() string {
	var b strings.Builder
	fmt.Fprintf(&b, "hub %s\n", r.Hub)
	if r.Cluster != "" && r.Mode != "" {
		fmt.Fprintf(&b, "cluster %s (%s)\n", r.Cluster, r.Mode)
	} else if r.Cluster != "" {
		fmt.Fprintf(&b, "cluster %s\n", r.Cluster)
	}
	for _, s := range r.Steps {
		place, _, _ := strings.Cut(s.Name, "/")
		fmt.Fprintf(&b, "%s %-*s%s\n", stateMark(s.State), placeWidth, place, s.Title)
		for _, f := range s.Findings {
			indent := strings.Repeat(" ", placeWidth+4)
			fmt.Fprintf(&b, "%s%s\n", indent, formatFinding(s.State, f))
			if f.Next != "" {
				fmt.Fprintf(&b, "%s→ %s\n", indent, columns.OneLine(f.Next))
			}
		}
	}
	r.printClusterLines(&b)
	if r.Cluster != "" && !r.memberSeen {
		fmt.Fprintln(&b, "The member itself was not checked: give its kubeconfig with --cluster-kubeconfig.")
	}
	if firstOf(r.Steps, diagnosis.Unseen) != nil {
		fmt.Fprintln(&b, "What could not be checked is marked with ?: use a kubeconfig with more permissions.")
	}
	if r.Healthy {
		fmt.Fprintln(&b, "Nothing broken was found.")
	}
	return b.String()
}

// printClusterLines prints a line for each cluster.
func (r *doctorReport) printClusterLines(b *strings.Builder) {
	width := 0
	for _, l := range r.Clusters {
		width = max(width, len(l.Name))
	}
	for _, l := range r.Clusters {
		text := fmt.Sprintf("%s cluster %-*s %-4s", stateMark(l.State), width, l.Name, l.Mode)
		if l.First != nil {
			text += "  " + l.First.Reason + ": " + columns.OneLine(l.First.Cause)
		}
		fmt.Fprintln(b, strings.TrimRight(text, " "))
	}
}

// formatFinding says what a finding is, with its own mark where the step has others.
func formatFinding(of diagnosis.State, f diagnosis.Finding) string {
	text := columns.OneLine(f.Cause)
	if f.Object != "" {
		text = columns.OneLine(f.Object) + ": " + text
	}
	if f.State != of {
		text = stateMark(f.State) + " " + text
	}
	return text
}

func stateMark(s diagnosis.State) string {
	switch s {
	case diagnosis.OK:
		return "✓"
	case diagnosis.Broken:
		return "✗"
	case diagnosis.Odd:
		return "!"
	default:
		return "?"
	}
}
