// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// ownedConditions are the types that no other writer sets.
func ownedConditions() []string {
	return []string{
		clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionDeleting,
		clusterv1.ManagedClusterConditionDuplicateIdentity,
	}
}

func setAccepted(mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) {
	conditions.SetCondition(&mc.Status.Conditions, mc.Generation, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionHubAccepted, Status: status, Reason: reason, Message: message,
	})
}

func setDeleting(mc *clusterv1.ManagedCluster, status metav1.ConditionStatus, reason, message string) {
	conditions.SetCondition(&mc.Status.Conditions, mc.Generation, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionDeleting, Status: status, Reason: reason, Message: message,
	})
}

// setDuplicate warns while the cluster is in the fleet under another name, too.
func setDuplicate(mc *clusterv1.ManagedCluster, is clusterStanding) {
	if is.first == "" {
		meta.RemoveStatusCondition(&mc.Status.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity)
		return
	}
	conditions.SetCondition(&mc.Status.Conditions, mc.Generation, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionDuplicateIdentity, Status: metav1.ConditionTrue,
		Reason: clusterv1.ManagedClusterReasonAlreadyJoined,
		Message: fmt.Sprintf("its agent reports that this is the cluster %s, which has already joined under the name %q: "+
			"only that one keeps the identity, and both report the same capacity; if this is not intended, delete one of the two ManagedClusters", is.id, is.first),
	})
}

func refuseNamespace(mc *clusterv1.ManagedCluster, why string) {
	setAccepted(mc, metav1.ConditionFalse, clusterv1.ManagedClusterReasonNamespaceUnusable, why)
}

// saySame reports whether the conditions are the same but for the generation
// that they were found at. It is not worth a write: the generation changes
// with each taint, and these conditions depend on nothing of that.
func saySame(before, after []metav1.Condition) bool {
	if len(before) != len(after) {
		return false
	}
	for i := range before {
		b := before[i]
		a := after[i]
		if b.Type != a.Type || b.Status != a.Status || b.Reason != a.Reason || b.Message != a.Message {
			return false
		}
	}
	return true
}

// recordConditionEvents emits an event for what an administrator should notice: a cluster that is
// let in or not, and one that is there twice.
func (c *ClusterLifecycleController) recordConditionEvents(mc *clusterv1.ManagedCluster, before, after []metav1.Condition) {
	for kind, well := range map[string]metav1.ConditionStatus{
		clusterv1.ManagedClusterConditionHubAccepted:       metav1.ConditionTrue,
		clusterv1.ManagedClusterConditionDuplicateIdentity: metav1.ConditionFalse,
	} {
		was := meta.FindStatusCondition(before, kind)
		is := meta.FindStatusCondition(after, kind)
		switch {
		case is == nil || was != nil && was.Reason == is.Reason:
		case is.Status != well:
			c.Events.Eventf(mc, nil, corev1.EventTypeWarning, is.Reason, "Accept", "%s", is.Message)
		case kind == clusterv1.ManagedClusterConditionHubAccepted:
			c.Events.Eventf(mc, nil, corev1.EventTypeNormal, is.Reason, "Accept", "%s", is.Message)
		}
	}
}
