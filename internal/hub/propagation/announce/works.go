// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/karmadauid"
)

// workReference returns the Work that a ManifestWork is shown as, which events are
// about.
func workReference(work *workv1.ManifestWork) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: karmadaworkv1alpha1.GroupVersion.String(), Kind: "Work",
		Namespace: karmadaworkv1alpha1.NamespacePrefix + work.Namespace, Name: work.Name, UID: karmadauid.WorkUID(work.UID),
	}
}

func workEvent(work *workv1.ManifestWork, eventType, reason, note string) Event {
	return Event{About: workReference(work), Type: eventType, Reason: reason, Note: note}
}

// workChangeEvents returns what has happened between two states of a work.
func workChangeEvents(before, after *workv1.ManifestWork) []Event {
	var all []Event
	tell := func(eventType, reason, note string) { all = append(all, workEvent(after, eventType, reason, note)) }
	switch is := dispatchingStatus(after); {
	case is == dispatchingStatus(before):
	case is == metav1.ConditionTrue:
		tell(corev1.EventTypeNormal, ReasonWorkDispatching, noteDispatching)
	case is == metav1.ConditionFalse:
		tell(corev1.EventTypeNormal, ReasonWorkDispatching, noteSuspended)
	}
	switch was, is := appliedCondition(before), appliedCondition(after); {
	case is == nil || was != nil && sameCondition(was, is):
	case is.Status == metav1.ConditionTrue:
		tell(corev1.EventTypeNormal, ReasonSyncSucceed, "Cluster "+after.Namespace+" has the object as desired.")
	case is.Status == metav1.ConditionFalse:
		tell(corev1.EventTypeWarning, ReasonSyncFailed, "Cluster "+after.Namespace+" does not have the object as desired: "+is.Message)
	}
	return append(all, reportChangeEvents(before, after)...)
}

// reportChangeEvents returns what has happened between two states of a work to what the
// agent reports about its object: the status, and the health.
func reportChangeEvents(before, after *workv1.ManifestWork) []Event {
	var all []Event
	tell := func(eventType, reason, note string) { all = append(all, workEvent(after, eventType, reason, note)) }
	status, health := reportedFeedback(after)
	lastStatus, lastHealth := reportedFeedback(before)
	if status && !lastStatus {
		tell(corev1.EventTypeNormal, ReasonReflectStatusSucceed, "Cluster "+after.Namespace+" reports the status of the object.")
	}
	if problem := feedbackProblem(after); problem != "" && problem != feedbackProblem(before) {
		tell(corev1.EventTypeWarning, ReasonReflectStatusFailed, problem)
	}
	problem := healthProblem(after, health)
	earlier := healthProblem(before, lastHealth)
	switch {
	case problem != "" && problem != earlier:
		tell(corev1.EventTypeWarning, ReasonInterpretHealthFailed, problem)
	case problem == "" && health != "" && health != lastHealth:
		tell(corev1.EventTypeNormal, ReasonInterpretHealthSucceed, "The object is "+health+" in cluster "+after.Namespace+".")
	}
	return all
}

// healthProblem says why nobody knows the health of the object although it is to be
// interpreted, "" if nothing is wrong with that.
func healthProblem(work *workv1.ManifestWork, health string) string {
	if health != string(karmadaworkv1alpha1.ResourceUnknown) {
		return ""
	}
	for i := range work.Status.ResourceStatus.Manifests {
		said := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestConditionStatusFeedbackSynced)
		if said != nil && said.Status == metav1.ConditionFalse && said.Reason == workv1.ManifestReasonInterpretationFailed {
			return said.Message
		}
	}
	return ""
}

// dispatchingStatus reports whether changes are brought to the cluster, as the Work says
// it; "" if the agent has not said anything yet.
func dispatchingStatus(work *workv1.ManifestWork) metav1.ConditionStatus {
	if said := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionDispatching); said != nil {
		return said.Status
	}
	if appliedCondition(work) != nil {
		return metav1.ConditionTrue
	}
	return ""
}

// appliedCondition returns what the agent says of the latest generation, with the message
// about the object itself if there is one; nil if it says nothing.
func appliedCondition(work *workv1.ManifestWork) *metav1.Condition {
	found := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	if found == nil || found.ObservedGeneration != 0 && found.ObservedGeneration < work.Generation {
		return nil
	}
	said := *found
	for i := range work.Status.ResourceStatus.Manifests {
		one := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestConditionApplied)
		if one != nil && one.Status != metav1.ConditionTrue && one.Message != "" {
			said.Message = one.Message
		}
	}
	return &said
}

// reportedFeedback returns whether the agent reports the status of the object, and which
// health.
func reportedFeedback(work *workv1.ManifestWork) (status bool, health string) {
	for i := range work.Status.ResourceStatus.Manifests {
		for _, value := range work.Status.ResourceStatus.Manifests[i].StatusFeedback.Values {
			switch v := value.FieldValue; {
			case value.Name == karmadaworkv1alpha1.FeedbackStatus:
				status = true
			case value.Name == karmadaworkv1alpha1.FeedbackHealth && v.String != nil:
				health = *v.String
			}
		}
	}
	return status, health
}

// feedbackProblem says why the agent does not report the status of the object, "" if
// nothing is wrong.
func feedbackProblem(work *workv1.ManifestWork) string {
	for i := range work.Status.ResourceStatus.Manifests {
		said := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestConditionStatusFeedbackSynced)
		if said != nil && said.Status == metav1.ConditionFalse {
			return said.Message
		}
	}
	return ""
}
