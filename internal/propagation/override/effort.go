// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import "fmt"

// effortMax is what all changes of an object for a cluster may cost together, whatever
// policies they are of: seconds of work. A document of 1 MiB may have about 970
// operations.
const effortMax = 1 << 30

// What changes cost, in proportion to the time that they take.
const (
	// moveEffort is for a byte of a document and an operation, which may move all that
	// is behind the place that it changes.
	moveEffort = 1
	// readEffort is for a byte of JSON that is read and written.
	readEffort = 50
	// yamlEffort is for a byte of YAML that is read, and for a byte that becomes YAML.
	yamlEffort = 200
	// imageEffort is for a byte of the name of an image: a regular expression matches it.
	imageEffort = 200
	// entryEffort is for an entry of a list or a map that is looked at and copied.
	entryEffort = 500
)

// effortBudget is what is left for the changes of an object for a cluster.
type effortBudget struct{ left int }

// takeEffort takes what a change costs, unless there is not so much left.
func (e *effortBudget) takeEffort(size, each int) error {
	// The sizes are those of texts in memory, so their product does not overflow.
	if e.left -= size * each; e.left < 0 {
		return fmt.Errorf("all overriders for this object are more work than a hub does for one object (%d of %d units too many): use fewer operations, "+
			"put those about one text into one fieldOverrider, or make the object smaller", -e.left, effortMax)
	}
	return nil
}
