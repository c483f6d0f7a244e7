// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// TestManyPlacementsAreNotRead has a replica set of more Placements than there may be: each of its
// Placements, be it the same again, has all of its groups once more in memory.
func TestManyPlacementsAreNotRead(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := workv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	groups := clusterv1alpha1.MandatoryDecisionGroups{MandatoryDecisionGroups: make([]clusterv1alpha1.MandatoryDecisionGroup, 500_000)}
	of := func(placements int, strategy clusterv1alpha1.RolloutStrategy) []workv1alpha1.LocalPlacementReference {
		refs := make([]workv1alpha1.LocalPlacementReference, placements)
		for i := range refs {
			refs[i] = workv1alpha1.LocalPlacementReference{Name: "p", RolloutStrategy: strategy}
		}
		return refs
	}
	for name, refs := range map[string][]workv1alpha1.LocalPlacementReference{
		"placementRefs: Too many: must have at most 64 items": of(33_700, clusterv1alpha1.RolloutStrategy{}),
		"placementRefs[0].rolloutStrategy.progressive.mandatoryDecisionGroups: Too many: must have at most 1024 items": of(1, clusterv1alpha1.RolloutStrategy{
			Progressive: &clusterv1alpha1.RolloutProgressive{MandatoryDecisionGroups: groups},
		}),
		"placementRefs[0].rolloutStrategy.progressivePerGroup.mandatoryDecisionGroups: Too many": of(1, clusterv1alpha1.RolloutStrategy{
			ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{MandatoryDecisionGroups: groups},
		}),
	} {
		set := &workv1alpha1.ManifestWorkReplicaSet{}
		set.Namespace, set.Name = "shop", "web"
		set.Spec.PlacementRefs = rollout.CutReferences(refs)
		watching := fake.NewClientBuilder().WithScheme(scheme).WithObjects(set).WithStatusSubresource(set).Build()
		c := NewWorkReplicaSetController(WorkReplicaSetDeps{Counted: func() bool { return true }, Client: interceptor.NewClient(watching, interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				t.Errorf("%s: what the Placements choose is read", name)
				return nil
			},
		})})
		if _, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := watching.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		verified := meta.FindStatusCondition(set.Status.Conditions, workv1alpha1.ConditionPlacementVerified)
		if verified == nil || verified.Reason != workv1alpha1.ReasonNotAsExpected || !strings.HasPrefix(verified.Message, "spec."+name) {
			t.Errorf("%s: the condition is %+v", name, verified)
		}
	}
}
