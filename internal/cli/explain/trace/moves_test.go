// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/rebalance"
)

func TestWhenReplicasMove(t *testing.T) {
	const stays = "Its replicas are divided: new clusters and freed capacity are not used automatically, only when the object or its policy changes."
	continuous := map[string]string{fleetv1alpha1.AnnotationRebalance: fleetv1alpha1.RebalanceContinuous}
	moved := map[string]string{fleetv1alpha1.AnnotationRebalanced: rebalance.MoveRecord{At: metav1.NewTime(noon.Add(-5 * time.Minute)), Moves: 1, What: "1 replica moved: a 3 -> 2, c 0 -> 1, as there is room in c"}.AnnotationText()}
	divided := &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided}
	const first = "Its replicas are divided, and rebalanced automatically: at most 3 replicas move to clusters that have been better for 10m, and no more for as long after that."
	for name, c := range map[string]struct {
		policy, binding map[string]string
		scheduling      *policyv1alpha1.ReplicaSchedulingStrategy
		want            []string
	}{
		"copies":               {continuous, nil, nil, nil},
		"divided":              {nil, nil, divided, []string{stays}},
		"divided after moves":  {nil, moved, divided, []string{stays}},
		"nothing moved yet":    {continuous, nil, divided, []string{first + " None has moved yet."}},
		"some have":            {continuous, moved, divided, []string{first, "The last time, 5m ago: 1 replica moved: a 3 -> 2, c 0 -> 1, as there is room in c."}},
		"a mistake moves none": {map[string]string{fleetv1alpha1.AnnotationRebalance: "Always"}, nil, divided, []string{stays}},
	} {
		t.Run(name, func(t *testing.T) {
			f := web("shop/all").policy("all", 0, deployment("web")).asking(func(*policyv1alpha1.PropagationSpec) {}).bound()
			f.Policies[0].Annotations = c.policy
			f.Binding.Annotations = c.binding
			f.Binding.Spec.Placement = &policyv1alpha1.Placement{ReplicaScheduling: c.scheduling}
			f.Binding.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "a", Replicas: 15}, {Name: "b", Replicas: 15}}
			if diff := cmp.Diff(c.want, f.replicaMoveNotes(noon)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
