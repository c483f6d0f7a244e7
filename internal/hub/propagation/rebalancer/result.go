// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalancer

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
)

// finished tells whether all has been asked for that a rebalancer is about now.
func finished(r *appsv1alpha1.WorkloadRebalancer) bool {
	return r.Status.FinishTime != nil && r.Status.ObservedGeneration == r.Generation
}

// due returns when a rebalancer that has finished is to be deleted; false for one
// that stays.
func due(r *appsv1alpha1.WorkloadRebalancer) (time.Time, bool) {
	if r.Spec.TTLSecondsAfterFinished == nil || !finished(r) {
		return time.Time{}, false
	}
	return r.Status.FinishTime.Add(time.Duration(*r.Spec.TTLSecondsAfterFinished) * time.Second), true
}

// results are what became of objects. One that is not among them is tried again.
type results map[appsv1alpha1.ObjectReference]appsv1alpha1.ObservedWorkload

// known returns what is asked for already, of what a rebalancer was before it was
// changed. What had failed is tried again with the rest.
func known(r *appsv1alpha1.WorkloadRebalancer) results {
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
		observed.Result, observed.Reason = appsv1alpha1.RebalanceFailed, appsv1alpha1.ReferencedBindingNotFound
	}
	s[workload] = observed
}

// report makes the status of a rebalancer say the results. It has finished if there
// is one for each object.
func report(r *appsv1alpha1.WorkloadRebalancer, of results, now time.Time) {
	status := appsv1alpha1.WorkloadRebalancerStatus{ObservedGeneration: r.Status.ObservedGeneration}
	complete, listed := true, map[appsv1alpha1.ObjectReference]bool{}
	for _, workload := range r.Spec.Workloads {
		observed, has := of[workload]
		complete = complete && has
		if has && !listed[workload] {
			listed[workload] = true
			status.ObservedWorkloads = append(status.ObservedWorkloads, observed)
		}
	}
	if complete {
		status.ObservedGeneration, status.FinishTime = r.Generation, &metav1.Time{Time: now}
	}
	r.Status = status
}
