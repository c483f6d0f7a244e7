// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import "sigs.k8s.io/structured-merge-diff/v6/fieldpath"

// keepDecision is what was decided of the fields at a path, other than of those around them, and of what is in
// them. It is a tree: who goes through an object need not write out the path to each value, which would take
// as long as there are values times the length of their paths.
type keepDecision struct {
	keep keepRule
	// said is false where nothing was decided but of what is in the fields.
	said bool
	// below is by the texts of the elements.
	below map[string]*keepDecision
}

// decisionFor returns the decision about an element of the fields, nil if there is none.
func (d *keepDecision) decisionFor(element fieldpath.PathElement) *keepDecision {
	if d == nil || len(d.below) == 0 {
		return nil
	}
	return d.below[element.String()]
}

// ensureDecisionAt returns the decision about what is at a path, which is to be taken if it is new.
func (d *keepDecision) ensureDecisionAt(path fieldpath.Path) *keepDecision {
	for _, element := range path {
		text := element.String()
		if d.below[text] == nil {
			if d.below == nil {
				d.below = map[string]*keepDecision{}
			}
			d.below[text] = &keepDecision{}
		}
		d = d.below[text]
	}
	return d
}

// decideKeep decides.
func (d *keepDecision) decideKeep(to keepRule) {
	d.keep = to
	d.said = true
}

// isDecided reports whether that was decided.
func (d *keepDecision) isDecided(it keepRule) bool { return d != nil && d.said && d.keep == it }
