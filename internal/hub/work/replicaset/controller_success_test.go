// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// TestSuccessHasToLast is about a rollout that begins with a group by its name, and in which a
// cluster has to have succeeded for a while before the next one follows.
func TestSuccessHasToLast(t *testing.T) {
	h := hubs.TakeFixture(t).in(t)
	h.choose("p", []string{"c1", "c2"}, []string{"c3"})
	decision := &clusterv1beta1.PlacementDecision{}
	decision.Namespace, decision.Name = h.namespace, "p-decision-2"
	h.MustPatch(decision, func() { decision.Labels[clusterv1beta1.LabelDecisionGroupName] = "canary" })
	progressive := &clusterv1alpha1.RolloutProgressive{
		MaxConcurrency: intstr.FromInt32(1), RolloutConfig: clusterv1alpha1.RolloutConfig{MinSuccessTime: "1h"},
		MandatoryDecisionGroups: clusterv1alpha1.MandatoryDecisionGroups{
			MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "canary"}},
		},
	}
	set := h.set("v1", "p", clusterv1alpha1.RolloutStrategy{Type: "Progressive", Progressive: progressive})
	h.UntilRight(func() string { // the status is written after the works
		h.MustGet(set)
		if want := (workv1alpha1.ManifestWorkReplicaSetSummary{Total: 1, Applied: 1, Available: 1}); set.Status.Summary != want {
			return fmt.Sprintf("the summary is %+v, want %+v", set.Status.Summary, want)
		}
		return ""
	})
	h.delivered(set, "c3=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonProgressing, "1 of 3 clusters succeeded", "2 waiting for others", "Works have to stay successful for minSuccessTime: c3 until ")

	// Nothing but time tells that it has succeeded for long enough.
	h.MustPatch(set, func() { set.Spec.PlacementRefs[0].RolloutStrategy.Progressive.MinSuccessTime = "1s" })
	h.delivered(set, "c1=v1", "c2=v1", "c3=v1")
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete)
}
