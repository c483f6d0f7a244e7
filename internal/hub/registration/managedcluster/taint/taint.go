// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taint taints clusters that do not respond (unreachable) or report
// that they are unhealthy (unavailable).
package taint

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// UpdateTaints makes the two taints of the cluster fit its condition Available, in
// memory, and reports whether it changed them. When a taint was added is set by
// the webhook.
func UpdateTaints(mc *clusterv1.ManagedCluster) bool {
	want := wantedTaint(mc)
	changed := false
	for _, key := range []string{clusterv1.TaintUnavailable, clusterv1.TaintUnreachable} {
		has := slices.ContainsFunc(mc.Spec.Taints, func(t clusterv1.Taint) bool { return isOurs(t, key) })
		switch {
		case key == want && !has:
			mc.Spec.Taints = append(mc.Spec.Taints, clusterv1.Taint{Key: key, Effect: clusterv1.TaintEffectNoSelect})
			changed = true
		case key != want && has:
			mc.Spec.Taints = slices.DeleteFunc(mc.Spec.Taints, func(t clusterv1.Taint) bool { return isOurs(t, key) })
			changed = true
		}
	}
	return changed
}

// wantedTaint returns the key of the one taint that the cluster has to have, or "".
func wantedTaint(mc *clusterv1.ManagedCluster) string {
	available := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	switch {
	case available == nil || available.Status == metav1.ConditionUnknown:
		return clusterv1.TaintUnreachable
	case available.Status == metav1.ConditionFalse:
		return clusterv1.TaintUnavailable
	default:
		return ""
	}
}

// isOurs leaves a user's taint with the same key and another effect alone.
func isOurs(t clusterv1.Taint, key string) bool {
	return t.Key == key && t.Effect == clusterv1.TaintEffectNoSelect
}
