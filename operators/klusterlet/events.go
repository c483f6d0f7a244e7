// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// Actions of the events.
const (
	actionJoin    = "Join"
	actionInstall = "Install"
	actionRemove  = "Remove"
)

// reasonLeftBehind is the reason of the event that something is left on a managed
// cluster that cannot be reached.
const reasonLeftBehind = "ManagedResourcesLeftBehind"

// noteBytesMax is how long the API lets the text of an event be.
const noteBytesMax = 1000

// announceJoin emits an event when the step of the handshake is another than
// before.
func (c *Controller) announceJoin(before, after *operatorv1.Klusterlet) {
	c.announce(before, after, operatorv1.KlusterletJoined, actionJoin)
}

// announceFailure emits an event when installing fails for another reason than
// before.
func (c *Controller) announceFailure(before, after *operatorv1.Klusterlet) {
	c.announce(before, after, operatorv1.KlusterletConditionApplied, actionInstall)
}

func (c *Controller) announce(before, after *operatorv1.Klusterlet, conditionType, action string) {
	was := meta.FindStatusCondition(before.Status.Conditions, conditionType)
	is := meta.FindStatusCondition(after.Status.Conditions, conditionType)
	if is == nil || is.Status == metav1.ConditionUnknown || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if is.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	note := is.Message
	if len(note) > noteBytesMax {
		note = note[:noteBytesMax]
	}
	c.Events.Eventf(after, nil, kind, is.Reason, action, "%s", note)
}
