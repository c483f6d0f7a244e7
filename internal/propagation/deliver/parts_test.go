// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
)

// TestManyClustersAreServedInParts sends an object to many clusters, none of which gets the
// same. Whoever makes all of their works at once has no memory for a large object.
func TestManyClustersAreServedInParts(t *testing.T) {
	const clusters = 200
	revisions := 0
	s := source(t, clusters, nil)
	s.Chain = interpret.Chain{counting{native.NewKubernetesKinds(), &revisions}}
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
	for part, err := range RenderBatches(s) {
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
	works, problems, err := RenderWorks(s)
	if err != nil || len(works) != len(all) || len(problems) != clusters-len(all) {
		t.Errorf("together %d clusters get works and %d problems: %v; want %d and %d", len(works), len(problems), err, len(all), clusters-len(all))
	}
}

// TestStampsDoNotCount has the hub add to an object where it is from: an earlier version added less, and
// no work may be larger than its limit allows only because the hub is upgraded.
func TestStampsDoNotCount(t *testing.T) {
	s := source(t, 1, nil)
	s.Binding.SetNamespace("shop")
	s.Binding.SetName("web-deployment")
	s.Binding.SetLabels(map[string]string{workv1alpha2.LabelResourceBindingID: "b"})
	works, _, err := RenderWorks(s)
	if err != nil || works["a"] == nil {
		t.Fatalf("rendering: %v, %v", works, err)
	}
	work, earlier := works["a"], works["a"].DeepCopy()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		t.Fatal(err)
	}
	if object.GetAnnotations()[workv1alpha2.AnnotationResourceBindingName] != "web-deployment" {
		t.Fatalf("it does not say where it is from: %v", object.GetAnnotations())
	}
	object.SetLabels(nil)
	object.SetAnnotations(map[string]string{policyv1alpha1.AnnotationConflictResolution: policyv1alpha1.ConflictResolutionAbort})
	raw, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	earlier.Spec.Workload.Manifests[0].Raw = raw
	if was, is := allowance.WorkBytes(earlier), allowance.WorkBytes(work); was != is {
		t.Errorf("it takes %d bytes, and %d with all that the hub adds", was, is)
	}

	// Who writes a work, or a replica set, chooses the values.
	work.Annotations, earlier.Annotations = nil, nil
	if is := allowance.WorkBytes(work); is <= allowance.WorkBytes(earlier) {
		t.Errorf("what the hub has not added takes %d bytes", is)
	}
}
