// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// everyCluster is the name that stands for all clusters.
	everyCluster = "*"
	// namedMax is how many clusters are named that are waited for.
	namedMax = 10
)

// Follower is a cluster whose agent connects to the hub.
type Follower struct {
	Name string
	// Trusts are the authorities by which its agent verifies the hub.
	Trusts []string
}

// FollowerTrustFacts says which clusters still have to trust one of the authorities, besides
// those that are not waited for.
func FollowerTrustFacts(followers []Follower, authorities, without []string) StageFacts {
	if slices.Contains(without, everyCluster) {
		return StageFacts{}
	}
	var behind []string
	for _, f := range followers {
		trusts := func(authority string) bool { return slices.Contains(f.Trusts, authority) }
		if !slices.Contains(without, f.Name) && slices.ContainsFunc(authorities, func(a string) bool { return !trusts(a) }) {
			behind = append(behind, f.Name)
		}
	}
	if len(behind) == 0 {
		return StageFacts{}
	}
	slices.Sort(behind)
	names := strings.Join(behind[:min(len(behind), namedMax)], ", ")
	if more := len(behind) - namedMax; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	count := "1 cluster"
	if len(behind) > 1 {
		count = fmt.Sprintf("%d clusters", len(behind))
	}
	return StageFacts{Others: true, Left: fmt.Sprintf("waiting for the agents of %s to trust the new one: %s; "+
		"they follow within 15 minutes, and spec.rotation.servingAuthorityWithout lists those not to wait for", count, names)}
}
