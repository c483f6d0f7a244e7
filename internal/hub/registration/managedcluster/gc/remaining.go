// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"fmt"
	"strings"
	"time"
)

// namesMax is how many objects a message names.
const namesMax = 10

// Remaining is what is left in the namespace of a cluster. The zero value
// means that nothing is.
type Remaining struct {
	// Resource is the plural name of the kind that is deleted at the moment.
	Resource string
	// Count is the number of its objects; Names has the first of them, sorted.
	Count int
	Names []string
	// Pending is the number of those that only wait for their finalizers.
	Pending int
	// Why says why it takes long, if it does.
	Why string
	// Released is the number of objects that lost their finalizers in this pass.
	Released int
	// RetryAfter is when to look again at the latest.
	RetryAfter time.Duration
}

// Message returns a sentence for a condition.
func (r Remaining) Message() string {
	names := strings.Join(r.Names, ", ")
	if r.Count > len(r.Names) {
		names += ", …"
	}
	message := fmt.Sprintf("%d %s remaining, %d of them waiting for their finalizers: %s", r.Count, r.Resource, r.Pending, names)
	if r.Why != "" {
		message += "; " + r.Why
	}
	return message
}
