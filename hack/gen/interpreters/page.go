// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interpreters makes the table of docs/reference/interpreters.md: in what kinds differ from
// Karmada.
package interpreters

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	tableBegin = "<!-- kinds: generated from the rules and the notes by 'make generate' -->\n"
	tableEnd   = "<!-- end of kinds -->"
	notesBegin = "<!-- notes: the table of kinds is made of them -->\n"
	notesEnd   = "<!-- end of notes -->"
)

// RenderPage returns the page with the table that is made of the scripts, the native kinds and the notes
// of the page about what differs from Karmada. What Karmada has no rule for, and we have one, or the other
// way round, needs a note.
func RenderPage(content string) (string, error) {
	p, err := parsePage(content)
	if err != nil {
		return "", err
	}
	table, err := p.renderTable()
	return p.before + "\n" + table + "\n" + p.after, err
}

// The operations, as the page has them.
const (
	replicas   = "replicas"
	revised    = "revised"
	components = "components"
	sent       = "sent"
	retained   = "retained"
	reported   = "reported"
	status     = "status"
	judged     = "health"
	needs      = "needs"
)

func columns() []string {
	return []string{replicas, revised, components, sent, retained, reported, status, judged, needs}
}

// The names of groups of kinds in notes.
const (
	allKinds   = "all"
	ofOthers   = "kinds of others"
	kubernetes = "kinds of Kubernetes"
)

// interpretersPage is the page in parts.
type interpretersPage struct {
	before, after string
	groups        map[string][]documentedKind
	// notes are the numbers of notes by KIND.GROUP or the name of a group, and operation.
	notes map[string]map[string][]string
}

func parsePage(content string) (*interpretersPage, error) {
	before, rest, found := strings.Cut(content, tableBegin)
	_, after, also := strings.Cut(rest, tableEnd)
	_, notes, too := strings.Cut(after, notesBegin)
	notes, _, last := strings.Cut(notes, notesEnd)
	if !found || !also || !too || !last {
		return nil, fmt.Errorf("the page needs the lines %q, %q, %q and %q", tableBegin, tableEnd, notesBegin, notesEnd)
	}
	scripted, err := shippedKinds()
	if err != nil {
		return nil, err
	}
	p := &interpretersPage{before: before + tableBegin, after: tableEnd + after, notes: map[string]map[string][]string{}, groups: map[string][]documentedKind{
		ofOthers: scripted, kubernetes: nativeKinds(),
	}}
	rows := strings.Split(strings.TrimSpace(notes), "\n")
	for i, row := range rows[min(2, len(rows)):] {
		if err := p.addNote(row, strconv.Itoa(i+1)); err != nil {
			return nil, fmt.Errorf("note %d: %w", i+1, err)
		}
	}
	return p, nil
}

// addNote reads a note.
func (p *interpretersPage) addNote(row, number string) error {
	cells := strings.Split(strings.Trim(row, "| "), " | ")
	if len(cells) != 6 || slices.Contains(cells, "") || cells[0] != number {
		return fmt.Errorf("it needs its number, kinds, operations, what differs, why, and what a user sees: %s", row)
	}
	for name := range strings.SplitSeq(strings.ReplaceAll(cells[1], "`", ""), ", ") {
		all, err := p.findNamed(name)
		if err != nil {
			return err
		}
		for _, of := range all {
			for operation := range strings.SplitSeq(cells[2], ", ") {
				if !slices.Contains(columns(), operation) {
					return fmt.Errorf("there is no operation %q", operation)
				}
				if p.notes[of] == nil {
					p.notes[of] = map[string][]string{}
				}
				p.notes[of][operation] = append(p.notes[of][operation], number)
			}
		}
	}
	return nil
}

// findNamed returns the groups or kinds that a note means.
func (p *interpretersPage) findNamed(name string) ([]string, error) {
	switch name {
	case allKinds:
		return []string{ofOthers, kubernetes}, nil
	case ofOthers, kubernetes:
		return []string{name}, nil
	}
	var all []string
	group, ofGroup := strings.CutPrefix(name, "*.")
	for _, kinds := range p.groups {
		for _, d := range kinds {
			if d.kind.String() == name || d.kind.Kind == name || ofGroup && d.kind.Group == group {
				all = append(all, d.kind.String())
			}
		}
	}
	if len(all) == 0 || len(all) > 1 && !ofGroup {
		return nil, fmt.Errorf("it is about %q, which is %v: name one kind as KIND.GROUP, or all of a group as *.GROUP", name, all)
	}
	return all, nil
}

// renderTable returns the table of kinds, and all that has no note and needs one.
func (p *interpretersPage) renderTable() (string, error) {
	var text strings.Builder
	var wrong []error
	text.WriteString("| Kind | " + strings.Join(columns(), " | ") + " |\n|---|" + strings.Repeat("---|", len(columns())) + "\n")
	theirs := karmadaOperations()
	for _, group := range []string{ofOthers, kubernetes} {
		text.WriteString("| **" + strings.ToUpper(group[:1]) + group[1:] + "** |")
		for _, operation := range columns() {
			text.WriteString(strings.TrimRight(" "+p.noteNumbers(group, operation), " ") + " |")
		}
		text.WriteString("\n")
		for _, d := range p.groups[group] {
			has, known := theirs[d.kind.String()]
			if delete(theirs, d.kind.String()); !known {
				wrong = append(wrong, fmt.Errorf("what Karmada does with %s is not known", d.kind))
			}
			row, err := p.renderRow(d, strings.Fields(has))
			text.WriteString(row)
			wrong = append(wrong, err)
		}
	}
	for kind := range theirs {
		wrong = append(wrong, fmt.Errorf("%s, which Karmada knows, is not in the table", kind))
	}
	return text.String(), errors.Join(wrong...)
}

// renderRow returns what differs of a kind; theirs are the operations that Karmada has a rule for.
func (p *interpretersPage) renderRow(d documentedKind, theirs []string) (string, error) {
	var text strings.Builder
	var wrong []error
	text.WriteString("| `" + d.kind.Kind + "`")
	if place := strings.TrimLeft(d.kind.Group+"/"+d.version, "/"); d.version != "" {
		text.WriteString(" of `" + place + "`")
	} else if d.kind.Group != "" {
		text.WriteString(" of `" + d.kind.Group + "`")
	}
	text.WriteString(" |")
	for _, operation := range columns() {
		numbers := p.noteNumbers(d.kind.String(), operation)
		switch {
		case numbers != "":
			text.WriteString(" differs " + numbers + " |")
		case operation != reported && d.rules[operation] != slices.Contains(theirs, operation):
			wrong = append(wrong, fmt.Errorf("%s, %s: a rule is there %t, and in Karmada %t: a note has to say so",
				d.kind, operation, d.rules[operation], slices.Contains(theirs, operation)))
		case d.rules[operation]:
			text.WriteString(" same |")
		default:
			text.WriteString(" – |")
		}
	}
	return text.String() + "\n", errors.Join(wrong...)
}

// noteNumbers returns the numbers of notes.
func (p *interpretersPage) noteNumbers(of, operation string) string {
	if numbers := p.notes[of][operation]; len(numbers) > 0 {
		return "(" + strings.Join(numbers, ", ") + ")"
	}
	return ""
}
