// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import "sigs.k8s.io/structured-merge-diff/v6/fieldpath"

// decision is what was decided of the fields at a path, other than of those around them, and of what is in
// them. It is a tree: who goes through an object need not write out the path to each value, which would take
// as long as there are values times the length of their paths.
type decision struct {
	keep keep
	// said is false where nothing was decided but of what is in the fields.
	said bool
	// below is by the texts of the elements.
	below map[string]*decision
}

// of returns the decision about an element of the fields, nil if there is none.
func (d *decision) of(element fieldpath.PathElement) *decision {
	if d == nil || len(d.below) == 0 {
		return nil
	}
	return d.below[element.String()]
}

// at returns the decision about what is at a path, which is to be taken if it is new.
func (d *decision) at(path fieldpath.Path) *decision {
	for _, element := range path {
		text := element.String()
		if d.below[text] == nil {
			if d.below == nil {
				d.below = map[string]*decision{}
			}
			d.below[text] = &decision{}
		}
		d = d.below[text]
	}
	return d
}

// set decides.
func (d *decision) set(to keep) {
	d.keep = to
	d.said = true
}

// is reports whether that was decided.
func (d *decision) is(it keep) bool { return d != nil && d.said && d.keep == it }
