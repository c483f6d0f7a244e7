// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/cli/health"
)

// toldOneByOne is how many placements, or replica sets, are told about one by one.
const toldOneByOne = 10

func placementChecks() []stepCheck {
	return []stepCheck{
		{OnHub, "placements", "placements choose clusters", func(e *evidence.Evidence) bool { return !e.Placements.IsAbsent() }, hubPlacements},
		{OnHub, "replicasets", "replica sets progress", func(e *evidence.Evidence) bool { return !e.ReplicaSets.IsAbsent() }, hubReplicaSets},
	}
}

// DiagnosePlacements returns the steps of what chooses clusters. They come last: a
// cluster that is not well may be why a placement chooses none.
func DiagnosePlacements(e *evidence.Evidence) []Step { return evaluateChecks(placementChecks(), e) }

func hubPlacements(e *evidence.Evidence) []Finding {
	if e.Placements.Err != nil {
		return []Finding{unseenFinding("the Placements", e.Placements.Err)}
	}
	var found []Finding
	for i := range e.Placements.Value.Items {
		if f, wrong := placementFinding(e, &e.Placements.Value.Items[i]); wrong {
			found = append(found, f)
		}
	}
	return limitFindings(found, "Placements", "\"capstan get placements -A -o wide\" lists them.")
}

// limitFindings returns the first findings, and how many more there are.
func limitFindings(found []Finding, kind, next string) []Finding {
	more := len(found) - toldOneByOne
	if more <= 0 {
		return found
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(urgency(a), urgency(b)) })
	return append(found[:toldOneByOne:toldOneByOne], oddFinding("More", fmt.Sprintf("%d more %s", more, kind), "they have problems, too", next))
}

func urgency(f Finding) int {
	if f.State == Broken {
		return 0
	}
	return 1
}

// placementFinding looks at one Placement. One that has chosen some clusters, and one whose
// sets are still empty, are only odd.
func placementFinding(e *evidence.Evidence, p *clusterv1beta1.Placement) (f Finding, wrong bool) {
	if p.Annotations[clusterv1beta1.AnnotationSchedulingDisable] == "true" || !p.DeletionTimestamp.IsZero() {
		return Finding{}, false
	}
	state := health.PlacementReadiness(p)
	f = brokenFinding(state.Reason, fmt.Sprintf("Placement %s/%s", p.Namespace, p.Name), state.Message, placedNext(p, state.Reason))
	switch {
	case state.Ready == metav1.ConditionTrue:
		return Finding{}, false
	case state.Ready == metav1.ConditionUnknown:
		f.Reason = "PlacementNotSeen"
		if e.Hub.Now.Sub(lastSpecChange(p.ObjectMeta)) < soon {
			return Finding{}, false
		}
	case p.Status.NumberOfSelectedClusters > 0 && state.Reason != clusterv1beta1.PlacementReasonMisconfigured,
		state.Reason == clusterv1beta1.PlacementReasonAllManagedClusterSetsEmpty:
		f.State = Odd
	}
	return f, true
}

// placedNext is what to do about a Placement that is not satisfied.
func placedNext(p *clusterv1beta1.Placement, reason string) string {
	switch reason {
	case health.NotSeen, health.OutOfDate:
		return "Check that the hub's placement controller is running: kubectl -n open-cluster-management-hub logs -l app=cluster-manager-placement-controller --tail=20"
	case clusterv1beta1.PlacementReasonMisconfigured:
		return fmt.Sprintf("Fix the field: kubectl -n %s edit placement %s. Existing decisions are kept.", p.Namespace, p.Name)
	case clusterv1beta1.PlacementReasonNoManagedClusterSetBindings, clusterv1beta1.PlacementReasonNoIntersection:
		return fmt.Sprintf("kubectl -n %s get managedclustersetbindings lists the sets that are bound; the name of a binding is that of its set.", p.Namespace)
	case clusterv1beta1.PlacementReasonAllManagedClusterSetsEmpty:
		return "Put clusters into the set: kubectl get managedclustersets lists the sets, and capstan label labels clusters."
	default:
		return fmt.Sprintf("See why for each cluster: capstan explain placement %s -n %s", p.Name, p.Namespace)
	}
}

// lastSpecChange returns when somebody last changed the spec of an object.
func lastSpecChange(object metav1.ObjectMeta) time.Time {
	last := object.CreationTimestamp.Time
	for _, entry := range object.ManagedFields {
		if entry.Subresource == "" && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}
