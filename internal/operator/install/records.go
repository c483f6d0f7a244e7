// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// Inventory is what a status says of everything that is installed.
type Inventory struct {
	Related     []operatorv1.RelatedResourceMeta
	Generations []operatorv1.GenerationStatus
}

// AfterPass returns the inventory after a walk. One that did not come to its end
// keeps what was known of the objects that it did not come to.
func (i Inventory) AfterPass(records []render.AppliedRecord, complete bool) Inventory {
	var next Inventory
	for _, r := range records {
		related := operatorv1.RelatedResourceMeta{
			Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name,
		}
		if !slices.Contains(next.Related, related) { // one can be on both of two targets
			next.Related = append(next.Related, related)
		}
		if r.Generation > 0 {
			next.Generations = append(next.Generations, operatorv1.GenerationStatus{
				Group: r.Group, Version: r.Version, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name,
				LastGeneration: r.Generation,
			})
		}
	}
	if complete {
		return next
	}
	for _, old := range i.Related {
		if !slices.Contains(next.Related, old) {
			next.Related = append(next.Related, old)
		}
	}
	for _, old := range i.Generations {
		if !slices.ContainsFunc(next.Generations, func(g operatorv1.GenerationStatus) bool {
			g.LastGeneration = old.LastGeneration
			return g == old
		}) {
			next.Generations = append(next.Generations, old)
		}
	}
	return next
}

// LastGenerationOf returns the generation that the object had when it was applied
// last, or 0.
func (i Inventory) LastGenerationOf(of render.AppliedRecord) int64 {
	for _, g := range i.Generations {
		if g.Group == of.Group && g.Resource == of.Resource && g.Namespace == of.Namespace && g.Name == of.Name {
			return g.LastGeneration
		}
	}
	return 0
}
