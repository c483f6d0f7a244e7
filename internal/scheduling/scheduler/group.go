// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// GroupsMax is about how many groups there are at most: each is an object of its own. Groups are
// larger than they were to be if there would be more.
const GroupsMax = 1024

// Grouping says how chosen clusters are divided into groups, which a rollout
// takes one after the other.
type Grouping struct {
	// Named are the groups with a name, in their order. A cluster is in the first
	// that selects it, or else in one without a name.
	Named []NamedGroup
	// Size is how many clusters a group has at most, as a number or as a percentage
	// of all that are chosen, rounded up. What is larger becomes several groups.
	// The zero value is no bound.
	Size intstr.IntOrString
}

// NamedGroup selects clusters for a group.
type NamedGroup struct {
	Name           string
	Labels, Claims labels.Selector
}

// DecisionGroup is a group of chosen clusters, in the order of names.
type DecisionGroup struct {
	Name     string
	Clusters []string
}

// CheckGroupSize returns what is wrong with the size of groups that stands at
// the path, nil if nothing is.
func CheckGroupSize(size intstr.IntOrString, path *field.Path) *field.Error {
	if size == (intstr.IntOrString{}) {
		return nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&size, 100, true)
	if err != nil || n < 1 || size.Type == intstr.String && n > 100 {
		return field.Invalid(path, size.String(), "must be a number, at least 1, or a percentage from 1% to 100%")
	}
	return nil
}

// DivideTargets divides the targets, which are in the order of names, into groups.
// There is always one, which may be empty. The size has to be right (CheckGroupSize).
func (g Grouping) DivideTargets(fleet view.Fleet, targets []string) []DecisionGroup {
	named := make([][]string, len(g.Named))
	var rest []string
	for _, target := range targets {
		if n := g.groupOfTarget(fleet, target); n < len(named) {
			named[n] = append(named[n], target)
		} else {
			rest = append(rest, target)
		}
	}
	size, _ := g.SizeOf(len(targets))
	var groups []DecisionGroup
	for n, clusters := range named {
		groups = splitGroup(groups, g.Named[n].Name, clusters, size)
	}
	groups = splitGroup(groups, "", rest, size)
	if len(groups) == 0 {
		groups = []DecisionGroup{{}}
	}
	return groups
}

// groupOfTarget returns the number of the group that a cluster is in.
func (g Grouping) groupOfTarget(fleet view.Fleet, target string) int {
	i, found := fleet.FindCluster(target)
	if !found {
		return len(g.Named)
	}
	return g.groupOf(fleet.ClusterAt(i))
}

func (g Grouping) groupOf(c *view.Cluster) int {
	for n, group := range g.Named {
		if group.Labels.Matches(labels.Set(c.Labels)) && group.Claims.Matches(labels.Set(c.Claims)) {
			return n
		}
	}
	return len(g.Named)
}

func splitGroup(groups []DecisionGroup, name string, clusters []string, size int) []DecisionGroup {
	for len(clusters) > 0 {
		n := min(size, len(clusters))
		groups = append(groups, DecisionGroup{Name: name, Clusters: clusters[:n:n]})
		clusters = clusters[n:]
	}
	return groups
}

// SizeOf returns how many of so many clusters a group has at most, and whether that is more than
// was asked for, as there would be too many groups.
func (g Grouping) SizeOf(clusters int) (size int, larger bool) {
	if g.Size == (intstr.IntOrString{}) {
		return clusters, false
	}
	size, err := intstr.GetScaledValueFromIntOrPercent(&g.Size, clusters, true)
	if err != nil { // CheckGroupSize refuses it
		return clusters, false
	}
	size = max(1, size)
	// Each group with a name, and the one without, may have one that is not full.
	full := max(1, GroupsMax-len(g.Named)-1)
	least := (clusters + full - 1) / full
	return max(size, least), least > size
}

// MovesCluster reports whether a change of a chosen cluster can put it into another group.
func (g Grouping) MovesCluster(before, after *view.Cluster) bool {
	return before != nil && after != nil && g.groupOf(before) != g.groupOf(after)
}
