// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/propagation/rebalance"
)

// movementAnnotations is what a policy says about when replicas move by themselves.
func movementAnnotations(policy metav1.Object) map[string]string {
	says := map[string]string{}
	for _, name := range rebalance.SettingsAnnotations() {
		if value, is := policy.GetAnnotations()[name]; is {
			says[name] = value
		}
	}
	return says
}

// checkMovement returns what is wrong with that, and warns of what has no effect.
func checkMovement(policy policyv1alpha1.Policy) (admission.Warnings, fieldMistakes) {
	set, wrong := rebalance.ParseSettings(policy.GetAnnotations())
	says := movementAnnotations(policy)
	path := field.NewPath("metadata", "annotations")
	var warnings admission.Warnings
	switch scheduling := policy.PropagationSpec().Placement.ReplicaScheduling; {
	case len(wrong) > 0 || len(says) == 0:
	case set == nil:
		for _, name := range rebalance.SettingsAnnotations() {
			if _, is := says[name]; is {
				warnings = append(warnings, fmt.Sprintf("%s has no effect without %s: %s", path.Key(name), fleetv1alpha1.AnnotationRebalance, fleetv1alpha1.RebalanceContinuous))
			}
		}
	case scheduling == nil || scheduling.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDuplicated:
		warnings = append(warnings, fmt.Sprintf("%s has no effect on objects of which each cluster gets all replicas (spec.placement.replicaScheduling): they use new clusters without it",
			path.Key(fleetv1alpha1.AnnotationRebalance)))
	}
	return warnings, wrong
}
