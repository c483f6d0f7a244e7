// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package taint_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/taint"
)

func TestUpdate(t *testing.T) {
	unreachable := clusterv1.Taint{Key: clusterv1.TaintUnreachable, Effect: clusterv1.TaintEffectNoSelect}
	unavailable := clusterv1.Taint{Key: clusterv1.TaintUnavailable, Effect: clusterv1.TaintEffectNoSelect}
	users := clusterv1.Taint{Key: "gpu", Effect: clusterv1.TaintEffectNoSelectIfNew}
	sameKey := clusterv1.Taint{Key: clusterv1.TaintUnreachable, Effect: clusterv1.TaintEffectPreferNoSelect}
	cases := map[string]struct {
		reason    string
		available metav1.ConditionStatus
		taints    []clusterv1.Taint
		want      []clusterv1.Taint
		changed   bool
	}{
		"a cluster that was never heard of": {
			reason: "no condition is like Unknown", want: []clusterv1.Taint{unreachable}, changed: true,
		},
		"a cluster that is silent": {
			reason: "the user's taint stays", available: metav1.ConditionUnknown,
			taints: []clusterv1.Taint{users, unavailable}, want: []clusterv1.Taint{users, unreachable}, changed: true,
		},
		"a cluster that is not well": {
			reason: "it answers, so it is not unreachable", available: metav1.ConditionFalse,
			taints: []clusterv1.Taint{unreachable}, want: []clusterv1.Taint{unavailable}, changed: true,
		},
		"a cluster that is well": {
			reason: "a user's taint of the same key and another effect stays", available: metav1.ConditionTrue,
			taints: []clusterv1.Taint{unreachable, sameKey}, want: []clusterv1.Taint{sameKey}, changed: true,
		},
		"nothing changed": {
			reason: "no write", available: metav1.ConditionTrue, taints: []clusterv1.Taint{users}, want: []clusterv1.Taint{users},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mc := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{Taints: c.taints}}
			if c.available != "" {
				mc.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionAvailable, Status: c.available}}
			}
			if changed := taint.UpdateTaints(mc); changed != c.changed {
				t.Errorf("%s: changed=%t, want %t", c.reason, changed, c.changed)
			}
			if diff := cmp.Diff(c.want, mc.Spec.Taints); diff != "" {
				t.Errorf("%s: -want +got\n%s", c.reason, diff)
			}
		})
	}
}
