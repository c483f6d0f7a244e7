// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ttl

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// secondsMax is the longest time to wait, in seconds: 292 years.
const secondsMax = math.MaxInt64 / int64(time.Second)

// DeletionTime returns when the work has to be deleted. It is false for one that stays:
// that has not finished, has no time to live (or a negative one, or one that
// nobody lives to see), is being deleted already, or belongs to a controller that
// would make it again.
//
// The time is counted from the transition of the condition Complete. The member
// wrote it by its own clock; what that says of the time before the work existed
// counts as its creation.
func DeletionTime(work *workv1.ManifestWork) (time.Time, bool) {
	seconds, ok := ttlSeconds(work)
	if !ok || !work.DeletionTimestamp.IsZero() {
		return time.Time{}, false
	}
	complete := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionComplete)
	if complete == nil || complete.Status != metav1.ConditionTrue {
		return time.Time{}, false
	}
	finished := complete.LastTransitionTime.Time
	if finished.Before(work.CreationTimestamp.Time) {
		finished = work.CreationTimestamp.Time
	}
	return finished.Add(time.Duration(seconds) * time.Second), true
}

// ttlSeconds returns the time to live of a work. It is false for one that has none.
func ttlSeconds(work *workv1.ManifestWork) (int64, bool) {
	if work.Spec.DeleteOption == nil || work.Spec.DeleteOption.TTLSecondsAfterFinished == nil {
		return 0, false
	}
	if isMadeAgain(work) {
		return 0, false
	}
	seconds := *work.Spec.DeleteOption.TTLSecondsAfterFinished
	return seconds, seconds >= 0 && seconds <= secondsMax
}

// isMadeAgain reports whether a controller would make the work again: that of a replica set, of a binding or of a namespace.
// Its member says whether it has finished, so that it could have it made anew without end.
func isMadeAgain(work *workv1.ManifestWork) bool {
	_, part := work.Labels[workv1.LabelManifestWorkReplicaSet]
	return part || deliver.BindingOf(work).Name != "" || deliver.OfNamespace(work) != ""
}

// SlimExpiringWork keeps of a work in a cache what DeletionTime needs: no manifest, no status of
// one. Of a work without a time to live it keeps that it is there, and of each what it takes up.
func SlimExpiringWork(obj any) (any, error) {
	work, ok := obj.(*workv1.ManifestWork)
	if !ok {
		return obj, nil
	}
	trimmed := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: work.Namespace, Name: work.Name, UID: work.UID, ResourceVersion: work.ResourceVersion,
	}}
	allowance.AnnotateSlimWork(work, trimmed)
	ttl, ok := ttlSeconds(work)
	if !ok {
		return trimmed, nil
	}
	trimmed.CreationTimestamp = work.CreationTimestamp
	trimmed.DeletionTimestamp = work.DeletionTimestamp
	trimmed.Spec.DeleteOption = &workv1.DeleteOption{TTLSecondsAfterFinished: &ttl}
	if complete := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionComplete); complete != nil {
		trimmed.Status.Conditions = []metav1.Condition{{
			Type: complete.Type, Status: complete.Status, LastTransitionTime: complete.LastTransitionTime,
		}}
	}
	return trimmed, nil
}
