// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
)

const (
	// claimLengthMax is how many characters the hub takes as the value of a claim, and nameLengthMax as
	// its name.
	claimLengthMax = 1024
	nameLengthMax  = 253
	// claimsMax and claimsBytesMax are how many claims a guard of the hub lets agents tell, and how many bytes
	// of names and values. Whoever may write claims in the member may write more.
	claimsMax      = 2000
	claimsBytesMax = 256 << 10
)

// ClaimRules say which claims the hub is told.
type ClaimRules struct {
	// CustomMax is the number of claims besides the reserved ones. Claims beyond
	// it, in the order of their names, are left out.
	CustomMax int
	// ReservedSuffixes are the ends of names of further reserved claims.
	ReservedSuffixes []string
}

// isReserved reports whether a claim is not subject to the limit.
func (r ClaimRules) isReserved(name string) bool {
	return slices.Contains(clusterv1alpha1.ReservedNames(), name) ||
		slices.ContainsFunc(r.ReservedSuffixes, func(suffix string) bool { return suffix != "" && strings.HasSuffix(name, suffix) })
}

// isTooLong reports whether the hub would refuse all claims because of this one.
func isTooLong(name, value string) bool {
	return utf8.RuneCountInString(name) > nameLengthMax || utf8.RuneCountInString(value) > claimLengthMax
}

// withProperties returns the claims with the properties among them. A property
// goes before a claim of the same name, unless its value is too long for the hub.
func withProperties(claims []clusterv1alpha1.ClusterClaim, properties []aboutv1alpha1.ClusterProperty) []clusterv1alpha1.ClusterClaim {
	if len(properties) == 0 {
		return claims
	}
	var all []clusterv1alpha1.ClusterClaim
	named := map[string]bool{}
	for i := range properties {
		p := &properties[i]
		if isTooLong(p.Name, p.Spec.Value) {
			continue
		}
		named[p.Name] = true
		all = append(all, clusterv1alpha1.ClusterClaim{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: p.Labels}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: p.Spec.Value},
		})
	}
	for i := range claims {
		if !named[claims[i].Name] {
			all = append(all, claims[i])
		}
	}
	return all
}

// selectClaims returns what the hub is told of the claims: the reserved ones first,
// each group sorted by name, and no more of them than the hub takes. The identity of
// the cluster is a claim, too, if it has none of that name of its own.
func (r ClaimRules) selectClaims(list []clusterv1alpha1.ClusterClaim, id string) []clusterv1.ManagedClusterClaim {
	var reserved, custom []clusterv1.ManagedClusterClaim
	own := func(claim clusterv1alpha1.ClusterClaim) bool { return claim.Name == clusterv1alpha1.ClaimID }
	if id != "" && !slices.ContainsFunc(list, own) {
		reserved = append(reserved, clusterv1.ManagedClusterClaim{Name: clusterv1alpha1.ClaimID, Value: id})
	}
	for i := range list {
		claim := &list[i]
		if _, private := claim.Labels[clusterv1.LabelSpokeOnly]; private || claim.Spec.Value == "" || isTooLong(claim.Name, claim.Spec.Value) {
			continue
		}
		told := clusterv1.ManagedClusterClaim{Name: claim.Name, Value: claim.Spec.Value}
		if r.isReserved(claim.Name) {
			reserved = append(reserved, told)
		} else {
			custom = append(custom, told)
		}
	}
	byName := func(a, b clusterv1.ManagedClusterClaim) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(reserved, byName)
	slices.SortFunc(custom, byName)
	return firstClaims(append(reserved, custom[:min(len(custom), max(0, r.CustomMax))]...))
}

// firstClaims returns the claims up to the first for which the hub has no room.
func firstClaims(claims []clusterv1.ManagedClusterClaim) []clusterv1.ManagedClusterClaim {
	bytes := 0
	for i := range claims {
		bytes += storedBytes(claims[i].Name) + storedBytes(claims[i].Value)
		if i == claimsMax || bytes > claimsBytesMax {
			return slices.Clone(claims[:i])
		}
	}
	return claims
}

// storedBytes returns how many bytes the guard of the hub counts for a text: as if all of its characters took as many in JSON
// as the one that takes most.
func storedBytes(text string) int {
	sixBytes := func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune("&<>", r) }
	switch {
	case strings.ContainsFunc(text, sixBytes):
		return 6 * len(text)
	case strings.ContainsAny(text, "\"\\\u2028\u2029"):
		return 2 * len(text)
	default:
		return len(text)
	}
}
