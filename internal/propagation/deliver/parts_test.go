// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
)

// TestManyClustersAreServedInParts sends an object to many clusters, none of which gets the
// same. Whoever makes all of their works at once has no memory for a large object.
func TestManyClustersAreServedInParts(t *testing.T) {
	const clusters = 200
	revisions := 0
	s := source(t, clusters, nil)
	s.Chain = interpret.Chain{counting{native.New(), &revisions}}
	b := &workv1alpha2.ResourceBinding{}
	b.Spec.Replicas = clusters
	var all []string
	for i := range clusters - 10 {
		all = append(all, fmt.Sprintf("c%03d", i))
	}
	s.Binding, s.Fleet = b, accepted(all...)
	for i := range clusters { // the last are none of the hub's
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: fmt.Sprintf("c%03d", i), Replicas: int32(i + 1)})
	}
	var sizes []int
	var got []string
	for part, err := range Parts(s) {
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(part.Works)+len(part.Problems))
		got = append(got, slices.Sorted(maps.Keys(part.Works))...)
		if len(sizes) == 1 && revisions > partClusters+1 {
			t.Errorf("for the first part %d objects are made, want those of %d clusters", revisions, partClusters)
		}
	}
	if diff := cmp.Diff([]int{partClusters, partClusters, partClusters, clusters - 3*partClusters}, sizes); diff != "" {
		t.Errorf("clusters of the parts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("clusters that get the object (-want +got):\n%s", diff)
	}
	works, problems, err := Render(s)
	if err != nil || len(works) != len(all) || len(problems) != clusters-len(all) {
		t.Errorf("together %d clusters get works and %d problems: %v; want %d and %d", len(works), len(problems), err, len(all), clusters-len(all))
	}
}
