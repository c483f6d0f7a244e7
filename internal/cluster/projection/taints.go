// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// taintEffects are the effects of Kubernetes by those of ManagedClusters that mean the
// same.
func taintEffects() map[clusterv1.TaintEffect]corev1.TaintEffect {
	return map[clusterv1.TaintEffect]corev1.TaintEffect{
		clusterv1.TaintEffectNoSelect:       corev1.TaintEffectNoExecute,
		clusterv1.TaintEffectNoSelectIfNew:  corev1.TaintEffectNoSchedule,
		clusterv1.TaintEffectPreferNoSelect: corev1.TaintEffectPreferNoSchedule,
	}
}

// ClusterTaints returns the taints of a ManagedCluster as a Cluster has them.
func ClusterTaints(taints []clusterv1.Taint) []corev1.Taint {
	if len(taints) == 0 {
		return nil
	}
	effect := taintEffects()
	of := make([]corev1.Taint, len(taints))
	for i, t := range taints {
		of[i] = corev1.Taint{Key: t.Key, Value: t.Value, Effect: effect[t.Effect]}
		if !t.TimeAdded.IsZero() {
			of[i].TimeAdded = t.TimeAdded.DeepCopy()
		}
	}
	return of
}

// clusterTaint returns a taint of a Cluster as a ManagedCluster has it, without
// the time: the hub sets that. An effect that there is not stays as it is, for the
// API server to refuse.
func clusterTaint(t corev1.Taint) clusterv1.Taint {
	for cluster, kubernetes := range taintEffects() {
		if kubernetes == t.Effect {
			return clusterv1.Taint{Key: t.Key, Value: t.Value, Effect: cluster}
		}
	}
	return clusterv1.Taint{Key: t.Key, Value: t.Value, Effect: clusterv1.TaintEffect(t.Effect)}
}

// setTaints returns the taints without some, by key and effect, and with others
// in the place of those of the same key and effect. One that is there already
// keeps its time.
func setTaints(have []clusterv1.Taint, set, removed []corev1.Taint) []clusterv1.Taint {
	same := func(a clusterv1.Taint) func(clusterv1.Taint) bool {
		return func(b clusterv1.Taint) bool { return a.Key == b.Key && a.Effect == b.Effect }
	}
	taints := slices.Clone(have)
	for _, t := range removed {
		taints = slices.DeleteFunc(taints, same(clusterTaint(t)))
	}
	for _, t := range set {
		want := clusterTaint(t)
		at := slices.IndexFunc(taints, same(want))
		switch {
		case at < 0:
			taints = append(taints, want)
		case taints[at].Value != want.Value:
			taints[at] = want
		}
	}
	return taints
}

// sameTaints reports whether two Clusters keep the same workloads away: the time and
// the order of taints do not matter.
func sameTaints(a, b []corev1.Taint) bool {
	return maps.Equal(withoutTimes(a), withoutTimes(b))
}

func withoutTimes(taints []corev1.Taint) map[corev1.Taint]bool {
	set := map[corev1.Taint]bool{}
	for _, t := range taints {
		set[corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}] = true
	}
	return set
}
