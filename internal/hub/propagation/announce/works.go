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

// shownAs returns the Work that a ManifestWork is shown as, which events are
// about.
func shownAs(work *workv1.ManifestWork) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: karmadaworkv1alpha1.GroupVersion.String(), Kind: "Work",
		Namespace: karmadaworkv1alpha1.NamespacePrefix + work.Namespace, Name: work.Name, UID: karmadauid.Work(work.UID),
	}
}

func aboutWork(work *workv1.ManifestWork, eventType, reason, note string) Event {
	return Event{About: shownAs(work), Type: eventType, Reason: reason, Note: note}
}

// ofWork returns what has happened between two states of a work.
func ofWork(before, after *workv1.ManifestWork) []Event {
	var all []Event
	tell := func(eventType, reason, note string) { all = append(all, aboutWork(after, eventType, reason, note)) }
	switch is := dispatches(after); {
	case is == dispatches(before):
	case is == metav1.ConditionTrue:
		tell(corev1.EventTypeNormal, ReasonWorkDispatching, noteDispatching)
	case is == metav1.ConditionFalse:
		tell(corev1.EventTypeNormal, ReasonWorkDispatching, noteSuspended)
	}
	switch was, is := applied(before), applied(after); {
	case is == nil || was != nil && same(was, is):
	case is.Status == metav1.ConditionTrue:
		tell(corev1.EventTypeNormal, ReasonSyncSucceed, "Cluster "+after.Namespace+" has the object as it is wanted.")
	case is.Status == metav1.ConditionFalse:
		tell(corev1.EventTypeWarning, ReasonSyncFailed, "Cluster "+after.Namespace+" does not have the object as it is wanted: "+is.Message)
	}
	return append(all, ofReport(before, after)...)
}

// ofReport returns what has happened between two states of a work to what the
// agent reports about its object: the status, and the health.
func ofReport(before, after *workv1.ManifestWork) []Event {
	var all []Event
	tell := func(eventType, reason, note string) { all = append(all, aboutWork(after, eventType, reason, note)) }
	status, health := reported(after)
	lastStatus, lastHealth := reported(before)
	if status && !lastStatus {
		tell(corev1.EventTypeNormal, ReasonReflectStatusSucceed, "Cluster "+after.Namespace+" reports the status of the object.")
	}
	if problem := unreported(after); problem != "" && problem != unreported(before) {
		tell(corev1.EventTypeWarning, ReasonReflectStatusFailed, problem)
	}
	problem := misjudged(after, health)
	earlier := misjudged(before, lastHealth)
	switch {
	case problem != "" && problem != earlier:
		tell(corev1.EventTypeWarning, ReasonInterpretHealthFailed, problem)
	case problem == "" && health != "" && health != lastHealth:
		tell(corev1.EventTypeNormal, ReasonInterpretHealthSucceed, "The object is "+health+" in cluster "+after.Namespace+".")
	}
	return all
}

// misjudged says why nobody knows the health of the object although it is to be
// interpreted, "" if nothing is wrong with that.
func misjudged(work *workv1.ManifestWork, health string) string {
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

// dispatches tells whether changes are brought to the cluster, as the Work says
// it; "" if the agent has not said anything yet.
func dispatches(work *workv1.ManifestWork) metav1.ConditionStatus {
	if said := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionDispatching); said != nil {
		return said.Status
	}
	if applied(work) != nil {
		return metav1.ConditionTrue
	}
	return ""
}

// applied returns what the agent says of the latest generation, with the message
// about the object itself if there is one; nil if it says nothing.
func applied(work *workv1.ManifestWork) *metav1.Condition {
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

// reported returns whether the agent reports the status of the object, and which
// health.
func reported(work *workv1.ManifestWork) (status bool, health string) {
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

// unreported says why the agent does not report the status of the object, "" if
// nothing is wrong.
func unreported(work *workv1.ManifestWork) string {
	for i := range work.Status.ResourceStatus.Manifests {
		said := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[i].Conditions, workv1.ManifestConditionStatusFeedbackSynced)
		if said != nil && said.Status == metav1.ConditionFalse {
			return said.Message
		}
	}
	return ""
}
