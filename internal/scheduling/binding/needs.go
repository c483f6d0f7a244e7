// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// SchedulingState is what decides whether to decide anew.
type SchedulingState struct {
	// Input has the placement, the object and what was decided before.
	PlacementInput
	// AppliedPlacement is the placement of that decision, as the annotation of the
	// binding has it; "" if there is none yet.
	AppliedPlacement string
	// RescheduleTriggeredAt is when the user asked to decide anew, and LastScheduled
	// when it was decided.
	RescheduleTriggeredAt, LastScheduled *metav1.Time
}

// Triggered reports whether the user asked to decide anew, and it was not done
// yet: Input.Fresh is for that.
func (s SchedulingState) Triggered() bool {
	return s.RescheduleTriggeredAt != nil && (s.LastScheduled == nil || s.RescheduleTriggeredAt.After(s.LastScheduled.Time))
}

// NeedsScheduling reports whether to decide anew, and why, such as "replicas: 5 are wanted
// and 3 are placed". It is no reason that clusters come, have more room or become
// unavailable: what is divided stays where it is.
func NeedsScheduling(fleet view.Fleet, s SchedulingState) (bool, string) {
	if s.AppliedPlacement == "" {
		return true, "no decision was made yet"
	}
	if changed, what := placementChanged(s.Placement, s.AppliedPlacement, s.ObservedAffinity); changed {
		return true, what
	}
	if s.Triggered() {
		return true, "rescheduleTriggeredAt: the user requested a new decision"
	}
	for _, target := range s.Previous {
		if cluster, found := fleet.ClusterNamed(target.Name); !found || cluster.Deleting {
			return true, fmt.Sprintf("cluster %s is being deleted, or gone", target.Name)
		}
	}
	if s.placedAsWhole() && !isDuplicated(s.Placement) {
		if s.isComplete() {
			return false, ""
		}
		return true, "components: no cluster has all parts as desired"
	}
	if !s.Workload {
		return true, "each cluster that may be chosen gets a copy"
	}
	if isDuplicated(s.Placement) {
		return true, "each cluster that may be chosen gets all replicas"
	}
	if sum := placedReplicas(s.Previous); sum != int64(s.Replicas) {
		return true, fmt.Sprintf("replicas: %d are wanted and %d are placed", s.Replicas, sum)
	}
	return false, ""
}

// isDuplicated reports whether each cluster gets all replicas.
func isDuplicated(placement *policyv1alpha1.Placement) bool {
	return placement == nil || placement.ReplicaScheduling == nil ||
		placement.ReplicaScheduling.ReplicaSchedulingType == policyv1alpha1.ReplicaSchedulingTypeDuplicated
}

// placementChanged compares the placement with the one that was applied. Of
// clusterAffinities only the observed group counts, as the others were not used.
func placementChanged(placement *policyv1alpha1.Placement, applied, observed string) (bool, string) {
	var before, now policyv1alpha1.Placement
	if err := json.Unmarshal([]byte(applied), &before); err != nil {
		return true, fmt.Sprintf("the placement that was applied cannot be read: %v", err)
	}
	if placement != nil {
		now = *placement
	}
	switch same := equality.Semantic.DeepEqual; {
	case !same(before.ClusterAffinity, now.ClusterAffinity):
		return true, "placement.clusterAffinity has changed"
	case !same(before.ClusterTolerations, now.ClusterTolerations):
		return true, "placement.clusterTolerations has changed"
	case !same(before.SpreadConstraints, now.SpreadConstraints):
		return true, "placement.spreadConstraints has changed"
	case !same(before.ReplicaScheduling, now.ReplicaScheduling):
		return true, "placement.replicaScheduling has changed"
	case same(before.ClusterAffinities, now.ClusterAffinities):
		return false, ""
	}
	old, had := termOf(before.ClusterAffinities, observed)
	term, has := termOf(now.ClusterAffinities, observed)
	if !had || !has || !equality.Semantic.DeepEqual(old, term) {
		return true, "placement.clusterAffinities has changed"
	}
	return false, ""
}

func termOf(terms []policyv1alpha1.ClusterAffinityTerm, name string) (policyv1alpha1.ClusterAffinityTerm, bool) {
	for i := range terms {
		if terms[i].AffinityName == name {
			return terms[i], true
		}
	}
	return policyv1alpha1.ClusterAffinityTerm{}, false
}
