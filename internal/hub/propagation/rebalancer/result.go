// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalancer

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
)

// isFinished reports whether all has been asked for that a rebalancer is about now.
func isFinished(r *appsv1alpha1.WorkloadRebalancer) bool {
	return r.Status.FinishTime != nil && r.Status.ObservedGeneration == r.Generation
}

// deletionTime returns when a rebalancer that has finished is to be deleted; false for one
// that stays.
func deletionTime(r *appsv1alpha1.WorkloadRebalancer) (time.Time, bool) {
	if r.Spec.TTLSecondsAfterFinished == nil || !isFinished(r) {
		return time.Time{}, false
	}
	return r.Status.FinishTime.Add(time.Duration(*r.Spec.TTLSecondsAfterFinished) * time.Second), true
}

// results are what became of objects. One that is not among them is tried again.
type results map[appsv1alpha1.ObjectReference]appsv1alpha1.ObservedWorkload

// takenOutMax is how many objects that are not in its spec any more the status of a
// rebalancer keeps: who changes the spec again and again must not make it grow for ever.
const takenOutMax = 1000

// knownResults returns what is asked for already, of what a rebalancer was before it was
// changed. What had failed is tried again with the rest.
func knownResults(r *appsv1alpha1.WorkloadRebalancer) results {
	done := results{}
	for _, observed := range r.Status.ObservedWorkloads {
		if observed.Result == appsv1alpha1.RebalanceSuccessful {
			done[observed.Workload] = observed
		}
	}
	return done
}

// set notes what became of an object.
func (s results) set(workload appsv1alpha1.ObjectReference, found bool) {
	observed := appsv1alpha1.ObservedWorkload{Workload: workload, Result: appsv1alpha1.RebalanceSuccessful}
	if !found {
		observed.Result = appsv1alpha1.RebalanceFailed
		observed.Reason = appsv1alpha1.ReferencedBindingNotFound
	}
	s[workload] = observed
}

// reportResults makes the status of a rebalancer say the results, in the order of apiVersion,
// kind, namespace and name. What was asked for stays when it is taken out of the spec. The
// rebalancer has finished if there is a result for each object of the spec.
func reportResults(r *appsv1alpha1.WorkloadRebalancer, of results, now time.Time) {
	status := appsv1alpha1.WorkloadRebalancerStatus{ObservedGeneration: r.Status.ObservedGeneration}
	complete := true
	wanted := map[appsv1alpha1.ObjectReference]bool{}
	for _, workload := range r.Spec.Workloads {
		_, has := of[workload]
		complete = complete && has
		wanted[workload] = true
	}
	takenOut := 0
	for _, workload := range slices.SortedFunc(maps.Keys(of), compareWorkloads) {
		if !wanted[workload] {
			if takenOut++; takenOut > takenOutMax {
				continue
			}
		}
		status.ObservedWorkloads = append(status.ObservedWorkloads, of[workload])
	}
	if complete {
		status.ObservedGeneration = r.Generation
		status.FinishTime = &metav1.Time{Time: now}
	}
	r.Status = status
}

// compareWorkloads orders objects as Karmada's clients expect them: by apiVersion, kind, namespace
// and name as one text.
func compareWorkloads(a, b appsv1alpha1.ObjectReference) int {
	return strings.Compare(sortKey(a), sortKey(b))
}

func sortKey(of appsv1alpha1.ObjectReference) string {
	return strings.Join([]string{of.APIVersion, of.Kind, of.Namespace, of.Name}, " ")
}
