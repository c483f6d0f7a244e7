// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/rebalance"
)

// replicaMoveNotes say when replicas that are divided go to other clusters, and what moved
// last.
func (f *ObjectFacts) replicaMoveNotes(now time.Time) []string {
	if !f.Binding.divides() || len(f.Binding.Spec.Components) > 0 {
		return nil
	}
	set := f.rebalanceSettings()
	if set == nil {
		return []string{"Its replicas are divided: new clusters and freed capacity are not used automatically, only when the object or its policy changes."}
	}
	total := int64(0)
	for _, target := range f.Binding.Spec.Clusters {
		total += int64(target.Replicas)
	}
	note := fmt.Sprintf("Its replicas are divided, and rebalanced automatically: at most %s move to clusters that have been better for %s, and no more for as long after that.",
		rebalance.FormatReplicaCount(set.Budget.BudgetedReplicas(total)), duration.HumanDuration(set.Window))
	last := rebalance.LastMove(f.Binding.Annotations)
	if last.At.IsZero() {
		return []string{note + " None has moved yet."}
	}
	return []string{note, fmt.Sprintf("The last time, %s ago: %s.", duration.HumanDuration(now.Sub(last.At.Time)), last.What)}
}

// rebalanceSettings is what the policy that claims the object says of that; nil if nothing
// moves by itself.
func (f *ObjectFacts) rebalanceSettings() *rebalance.Settings {
	b := f.Binding.asBinding()
	for i := range f.Policies {
		if p := &f.Policies[i]; claims.PolicyClaimsObject(p, b) {
			set, _ := rebalance.ParseSettings(p.Annotations) // admission has told of mistakes
			return set
		}
	}
	for i := range f.ClusterPolicies {
		if p := &f.ClusterPolicies[i]; claims.PolicyClaimsObject(p, b) {
			set, _ := rebalance.ParseSettings(p.Annotations) // admission has told of mistakes
			return set
		}
	}
	return nil
}
