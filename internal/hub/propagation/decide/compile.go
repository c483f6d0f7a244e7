// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/stakes"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

const (
	// problemsMax is how many mistakes of a placement are remembered, and told.
	problemsMax = 20
	// readBytesMax is how long the placements are together, as JSON, that are read anew for one
	// look at all bindings, each of which counts readBytesMin at least. seenBytesMax is how long
	// those are that are looked for among the remembered ones. Whoever writes bindings can say
	// that any number of any placements was applied to them.
	readBytesMax = 4 * compiledBytesMax
	readBytesMin = 512
	seenBytesMax = 4 * readBytesMax
)

// compiledPlacement is what a placement is when it was read.
type compiledPlacement struct {
	compiled binding.CompiledPlacement
	problems field.ErrorList
}

// compile reads a placement, or remembers it by its text, as well as what is wrong with it.
// Without a placement it is read from the text.
func (d *Decider) compile(placement *policyv1alpha1.Placement, text string) (binding.CompiledPlacement, field.ErrorList) {
	made, known := d.compiled.Get(text)
	if !known {
		made = d.compiled.StoreIfAbsent(text, readPlacement(placement, text))
	}
	return made.compiled, made.problems
}

func readPlacement(placement *policyv1alpha1.Placement, text string) compiledPlacement {
	if placement == nil {
		placement = &policyv1alpha1.Placement{}
		if err := json.Unmarshal([]byte(cmp.Or(text, "{}")), placement); err != nil {
			path := field.NewPath("metadata", "annotations").Key(policyv1alpha1.AnnotationAppliedPlacement)
			return compiledPlacement{problems: field.ErrorList{field.Invalid(path, text, err.Error())}}
		}
	}
	compiled, problems := binding.CompilePlacement(placement)
	if len(problems) > 0 {
		return compiledPlacement{problems: slices.Clone(problems[:min(len(problems), problemsMax)])}
	}
	return compiledPlacement{compiled: compiled}
}

// AppliedPlacements are the placements that were applied to groups of bindings, as far as they were read.
type AppliedPlacements struct {
	decider *Decider
	read    map[*stakes.Group]compiledPlacement
}

// ReadApplied reads the placements of groups, the shortest first. What is too long together is not
// read: those groups are affected by everything, which has their bindings looked at.
func (d *Decider) ReadApplied(groups []*stakes.Group) AppliedPlacements {
	a := AppliedPlacements{decider: d, read: make(map[*stakes.Group]compiledPlacement, len(groups))}
	slices.SortFunc(groups, func(a, b *stakes.Group) int {
		return cmp.Or(cmp.Compare(len(a.Placement), len(b.Placement)), cmp.Compare(a.Placement, b.Placement))
	})
	var last *stakes.Group
	seen := 0
	made := 0
	for _, group := range groups {
		if last != nil && last.Placement == group.Placement {
			if one, is := a.read[last]; is {
				a.read[group] = one
			}
			continue
		}
		last = group
		if seen += len(group.Placement); seen > seenBytesMax {
			break
		}
		one, known := d.compiled.Get(group.Placement)
		if !known {
			if made += max(readBytesMin, len(group.Placement)); made > readBytesMax {
				continue
			}
			one = d.compiled.StoreIfAbsent(group.Placement, readPlacement(nil, group.Placement))
		}
		a.read[group] = one
	}
	return a
}

// Affected reports whether a change of a cluster can change the decision for the bindings of a
// group; nil is a cluster that does not exist, and target says that it was chosen for them.
func (a AppliedPlacements) Affected(of *stakes.Group, before, after *view.Cluster, target bool) bool {
	one, is := a.read[of]
	return !is || len(one.problems) > 0 || one.compiled.AffectedByChange(before, after, of.Stake, target, a.decider.clock.Now())
}

// Reconfirms reports whether the decisions for the bindings of a group are to be confirmed as a
// cluster has changed, even if they stay the same.
func (a AppliedPlacements) Reconfirms(of *stakes.Group, before, after *view.Cluster) bool {
	one, is := a.read[of]
	return !is || len(one.problems) == 0 && one.compiled.ReconfirmsDecision(before, after, of.Stake)
}
