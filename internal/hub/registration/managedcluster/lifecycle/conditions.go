// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/conditions"
)

// ownedConditions are the types that no other writer sets.
func ownedConditions() []string {
	return []string{clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionDeleting}
}

func setAccepted(mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) {
	conditions.Set(&mc.Status.Conditions, mc.Generation, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionHubAccepted, Status: status, Reason: reason, Message: message,
	})
}

func setDeleting(mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) {
	conditions.Set(&mc.Status.Conditions, mc.Generation, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionDeleting, Status: status, Reason: reason, Message: message,
	})
}

func refuse(mc *clusterv1.ManagedCluster, why string) {
	setAccepted(mc, metav1.ConditionFalse, clusterv1.ManagedClusterReasonNamespaceUnusable, why)
}

// saySame tells whether the conditions are the same but for the generation
// that they were found at. It is not worth a write: the generation changes
// with each taint, and these conditions depend on nothing of that.
func saySame(before, after []metav1.Condition) bool {
	if len(before) != len(after) {
		return false
	}
	for i := range before {
		b, a := before[i], after[i]
		if b.Type != a.Type || b.Status != a.Status || b.Reason != a.Reason || b.Message != a.Message {
			return false
		}
	}
	return true
}

// tell emits an event for what an administrator should notice.
func (c *Controller) tell(mc *clusterv1.ManagedCluster, before, after []metav1.Condition) {
	was := meta.FindStatusCondition(before, clusterv1.ManagedClusterConditionHubAccepted)
	is := meta.FindStatusCondition(after, clusterv1.ManagedClusterConditionHubAccepted)
	if is == nil || is.Status == metav1.ConditionTrue || (was != nil && was.Reason == is.Reason) {
		return
	}
	c.Events.Eventf(mc, nil, corev1.EventTypeWarning, is.Reason, "Accept", "%s", is.Message)
}
