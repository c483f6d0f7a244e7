// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package references

import (
	"cmp"
	"slices"
	"strings"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// ReferrerNeeds are what the binding of an object gets from those that need the object.
type ReferrerNeeds struct {
	// RequiredBy is in the order of names.
	RequiredBy []workv1alpha2.BindingSnapshot
	// Labels name who needs the object; the values are their permanent IDs.
	Labels             map[string]string
	ConflictResolution policyv1alpha1.ConflictResolution
	Preserve           *bool
	// Conflicts say about which fields not all want the same, so that the stronger
	// wish counts, in the words that users of Karmada look for.
	Conflicts []string
}

const (
	conflictingResolution = "ConflictResolution conflicted (Overwrite vs Abort)"
	conflictingPreserving = "PreserveResourcesOnDeletion conflicted (true vs false)"
)

const (
	// clustersMax is how many clusters the binding of an object names at most for those who need it, as many
	// as may be chosen for one.
	clustersMax = 10_000
	// repeatedBytesMax is how many bytes, as JSON, the clusters take that an earlier referrer has named, and
	// referrersBytesMax all referrers that name no other cluster, with their labels.
	repeatedBytesMax, referrersBytesMax = 128 << 10, 128 << 10
	// clusterBytes and referrerBytes are what each takes besides its name.
	clusterBytes, referrerBytes = 12, 200
)

// SendsDependencies reports whether what the object of a binding needs is sent along with it,
// and there are clusters to send it to.
func SendsDependencies(b workv1alpha2.Binding) bool {
	return b.GetDeletionTimestamp().IsZero() && !binding.ClustersOnHold(b) && b.BindingSpec().PropagateDeps && len(b.BindingSpec().Clusters) > 0
}

// SumReferrerNeeds returns what all those bindings together need that send along what their
// objects need. An object overwrites what is in a cluster if one of them wants
// that, and it stays there if one of them wants that.
func SumReferrerNeeds(referrers []workv1alpha2.Binding) ReferrerNeeds {
	needs := ReferrerNeeds{Labels: map[string]string{}}
	overwriting := map[bool]bool{}
	preserving := map[bool]bool{}
	for _, b := range referrers {
		if !SendsDependencies(b) {
			continue
		}
		spec := b.BindingSpec()
		snapshot := workv1alpha2.BindingSnapshot{Namespace: b.GetNamespace(), Name: b.GetName()}
		for _, target := range spec.Clusters {
			// Without replicas, which are not this object's: nothing is written as they change.
			snapshot.Clusters = append(snapshot.Clusters, workv1alpha2.TargetCluster{Name: target.Name})
		}
		slices.SortFunc(snapshot.Clusters, func(a, b workv1alpha2.TargetCluster) int { return strings.Compare(a.Name, b.Name) })
		needs.RequiredBy = append(needs.RequiredBy, snapshot)
		needs.Labels[DependedByLabel(b.GetNamespace(), b.GetName())] = b.GetLabels()[workv1alpha2.LabelResourceBindingID]

		overwrites := spec.ConflictResolution == policyv1alpha1.ConflictOverwrite
		preserves := spec.PreserveResourcesOnDeletion != nil && *spec.PreserveResourcesOnDeletion
		overwriting[overwrites] = true
		preserving[preserves] = true
		if overwrites || needs.ConflictResolution == "" {
			needs.ConflictResolution = spec.ConflictResolution
		}
		if preserves || needs.Preserve == nil {
			needs.Preserve = spec.PreserveResourcesOnDeletion
		}
	}
	needs.sortReferrers()
	if len(overwriting) > 1 {
		needs.Conflicts = append(needs.Conflicts, conflictingResolution)
	}
	if len(preserving) > 1 {
		needs.Conflicts = append(needs.Conflicts, conflictingPreserving)
	}
	return needs
}

// WithReferrers returns the needs with those added who need an object by what its binding
// says, and are not among the bindings that were summed up.
func (n ReferrerNeeds) WithReferrers(b workv1alpha2.Binding, who []workv1alpha2.BindingSnapshot) ReferrerNeeds {
	if len(who) == 0 {
		return n
	}
	spec := b.BindingSpec()
	if len(n.RequiredBy) == 0 {
		n.ConflictResolution = spec.ConflictResolution
		n.Preserve = spec.PreserveResourcesOnDeletion
	}
	for _, one := range who {
		label := DependedByLabel(one.Namespace, one.Name)
		n.Labels[label] = b.GetLabels()[label]
		n.RequiredBy = append(n.RequiredBy, one)
	}
	n.sortReferrers()
	return n
}

// HasReferrer reports whether a binding that a snapshot is of needs the object.
func (n ReferrerNeeds) HasReferrer(one workv1alpha2.BindingSnapshot) bool {
	_, found := slices.BinarySearchFunc(n.RequiredBy, one, byName)
	return found
}

func (n ReferrerNeeds) sortReferrers() {
	slices.SortFunc(n.RequiredBy, byName)
}

func byName(a, b workv1alpha2.BindingSnapshot) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// ApplyToBinding makes a binding say who needs its object. Where a policy claims the
// object, too, the policy says how it is sent.
func (n ReferrerNeeds) ApplyToBinding(b workv1alpha2.Binding) {
	spec := b.BindingSpec()
	spec.RequiredBy = BoundReferrers(n.RequiredBy)
	all := map[string]string{}
	for key, value := range b.GetLabels() {
		if !strings.HasPrefix(key, workv1alpha2.LabelDependedByPrefix) {
			all[key] = value
		}
	}
	for _, one := range spec.RequiredBy {
		label := DependedByLabel(one.Namespace, one.Name)
		all[label] = n.Labels[label]
	}
	b.SetLabels(all)
	if spec.Placement == nil {
		spec.ConflictResolution = n.ConflictResolution
		spec.PreserveResourcesOnDeletion = n.Preserve
	}
}

// BoundReferrers returns those who need an object, in the order that they have, as its binding says them, however many they are.
// Each cluster is there once at least. What there is no room for are clusters that were named before, and those who need the
// object nowhere else. Of what it returns it leaves nothing out.
func BoundReferrers(all []workv1alpha2.BindingSnapshot) []workv1alpha2.BindingSnapshot {
	var kept []workv1alpha2.BindingSnapshot
	named := map[string]bool{}
	repeated, redundant := 0, 0
	for _, one := range all {
		var first []workv1alpha2.TargetCluster
		again := 0
		for _, target := range one.Clusters {
			if named[target.Name] || len(named) == clustersMax {
				again += len(target.Name) + clusterBytes
				continue
			}
			named[target.Name] = true
			first = append(first, target)
		}
		if bytes := len(one.Namespace) + len(one.Name) + referrerBytes; len(first) == 0 {
			if redundant+bytes > referrersBytesMax {
				continue
			}
			redundant += bytes
		}
		if repeated+again > repeatedBytesMax {
			one.Clusters = first
		} else {
			repeated += again
		}
		kept = append(kept, one)
	}
	return slices.Clip(kept)
}

// Attached reports whether a binding says that another one needs its object.
func Attached(b workv1alpha2.Binding) bool {
	for key := range b.GetLabels() {
		if strings.HasPrefix(key, workv1alpha2.LabelDependedByPrefix) {
			return true
		}
	}
	return false
}
