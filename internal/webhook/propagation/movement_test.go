// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

func TestWhatAPolicySaysOfMoves(t *testing.T) {
	const mode, budget, window = "fleet.capstan.io/rebalance", "fleet.capstan.io/rebalance-budget", "fleet.capstan.io/rebalance-window"
	divided := &policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided}
	for name, c := range map[string]struct {
		annotations map[string]string
		scheduling  *policyv1alpha1.ReplicaSchedulingStrategy
		warn, want  []string
	}{
		"nothing":                   {nil, nil, nil, nil},
		"all of it":                 {map[string]string{mode: "Continuous", budget: "20%", window: "5m"}, divided, nil, nil},
		"another mode":              {map[string]string{mode: "Sometimes"}, divided, nil, []string{`metadata.annotations[fleet.capstan.io/rebalance]: Unsupported value: "Sometimes"`}},
		"mistakes":                  {map[string]string{mode: "Continuous", budget: "-1", window: "soon"}, divided, nil, []string{`metadata.annotations[fleet.capstan.io/rebalance-budget]: Invalid value: "-1": want a number`, `metadata.annotations[fleet.capstan.io/rebalance-window]: Invalid value: "soon": want a duration`}},
		"a budget of nothing":       {map[string]string{budget: "2"}, divided, []string{`metadata.annotations[fleet.capstan.io/rebalance-budget] has no effect without fleet.capstan.io/rebalance: Continuous`}, nil},
		"copies, which do not move": {map[string]string{mode: "Continuous"}, nil, []string{`metadata.annotations[fleet.capstan.io/rebalance] has no effect on objects of which each cluster gets all replicas (spec.placement.replicaScheduling): they use new clusters without it`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, policy := range []policyv1alpha1.Policy{
				&policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Annotations: c.annotations}},
				&policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}},
			} {
				policy.PropagationSpec().ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}}
				policy.PropagationSpec().Placement.ReplicaScheduling = c.scheduling
				warnings, wrong := checkPolicy(policy)
				told(t, warnings, wrong, c.warn, c.want)
			}
		})
	}
}

// TestMovesAreAskedAbout has a mistake come with an update that changes nothing else.
func TestMovesAreAskedAbout(t *testing.T) {
	before := &policyv1alpha1.PropagationPolicy{}
	after := before.DeepCopy()
	after.Annotations = map[string]string{"fleet.capstan.io/rebalance": "Sometimes"}
	v := objectValidator[*policyv1alpha1.PropagationPolicy]{
		content: func(p *policyv1alpha1.PropagationPolicy) any { return sentContent(p) },
		check:   checkMovementOf,
	}
	if _, err := v.ValidateUpdate(t.Context(), before, after); err == nil {
		t.Error("the mistake is accepted")
	}
	if _, err := v.ValidateUpdate(t.Context(), after, after.DeepCopy()); err != nil {
		t.Errorf("what was there is refused: %v", err)
	}
}

func checkMovementOf(p *policyv1alpha1.PropagationPolicy) (admission.Warnings, fieldMistakes) {
	return checkMovement(p)
}
