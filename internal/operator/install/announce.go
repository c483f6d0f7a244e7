// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// Actions of the events: what the operator was doing.
const (
	ActionInstall = "Install"
	ActionRemove  = "Remove"
	ActionJoin    = "Join"
)

// ConditionChange is what an event tells of: a condition before and after a walk.
type ConditionChange struct {
	Before, After []metav1.Condition
	// Type of the condition.
	Type string
	// Action is what the operator was doing.
	Action string
	// Normal are the reasons that are no cause for a warning while it is False.
	Normal []string
}

// RecordConditionEvent records an event if status or reason of the condition changed. What
// is Unknown is not worth one.
func RecordConditionEvent(recorder events.EventRecorder, about runtime.Object, c ConditionChange) {
	was := meta.FindStatusCondition(c.Before, c.Type)
	is := meta.FindStatusCondition(c.After, c.Type)
	if is == nil || is.Status == metav1.ConditionUnknown || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if is.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	for _, reason := range c.Normal {
		if is.Reason == reason {
			kind = corev1.EventTypeNormal
		}
	}
	recorder.Eventf(about, nil, kind, is.Reason, c.Action, "%s", is.Message)
}

// RecordRemovalWarning records that something was not removed as it should have been.
func RecordRemovalWarning(recorder events.EventRecorder, about runtime.Object, reason, message string) {
	recorder.Eventf(about, nil, corev1.EventTypeWarning, reason, ActionRemove, "%s", message)
}
