// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

const (
	// actionInstall and actionRemove are what the operator was doing when an
	// event came up.
	actionInstall = "Install"
	actionRemove  = "Remove"

	// reasonGivenUp is the reason of the event about works and clusters that were
	// not waited for any longer.
	reasonGivenUp = "GivenUp"
	// reasonLeftBehind is the reason of the event about a hub that could not be
	// reached.
	reasonLeftBehind = "HubResourcesLeftBehind"
)

// emit tells by an event that the hub became installed, or could not be.
func (c *Controller) emit(before, after *operatorv1.ClusterManager) {
	was := meta.FindStatusCondition(before.Status.Conditions, operatorv1.ClusterManagerConditionApplied)
	is := meta.FindStatusCondition(after.Status.Conditions, operatorv1.ClusterManagerConditionApplied)
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if is.Status != metav1.ConditionTrue && is.Reason != operatorv1.ClusterManagerReasonInstalling {
		kind = corev1.EventTypeWarning
	}
	c.events.Eventf(after, nil, kind, is.Reason, actionInstall, "%s", is.Message)
}

// emitRemoval tells by an event what was not removed in the way it should be.
func (c *Controller) emitRemoval(cm *operatorv1.ClusterManager, reason, what string) {
	c.events.Eventf(cm, nil, corev1.EventTypeWarning, reason, actionRemove, "%s", what)
}
