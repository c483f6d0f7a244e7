// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decisions is a hub whose placement controller is watched at each write, and whose
// decisions are compared slice by slice.
package decisions

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

// Heat sets the score of a cluster; until may be nil.
func (h Hub) Heat(cluster, resource string, value int32, until *metav1.Time) {
	h.Helper()
	h.NoError(client.IgnoreAlreadyExists(h.Create(h.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}})))
	score := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: resource}}
	h.NoError(client.IgnoreAlreadyExists(h.Create(h.Context(), score)))
	h.PatchObject(score, func() {
		score.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "heat", Value: value}}
		score.Status.ValidUntil = until
	})
}

// Survives makes a change while a controller runs that dies at one of its writes,
// and sees what a new one makes of that. It returns false if the change takes
// fewer writes.
func (h Hub) Survives(p *clusterv1beta1.Placement, w *Writes, change func(), groups map[int][]string, numbers ...int) bool {
	h.Helper()
	c := h.StartController(w)
	change()
	h.AwaitNothingWrong(func() string {
		if problem := h.Wrong(p, groups, numbers); problem != "" && len(w.AllWrites()) < w.Dies {
			return fmt.Sprintf("after %d writes: %s", len(w.AllWrites()), problem)
		}
		return ""
	})
	c.Stop()
	next := h.StartController(&Writes{})
	h.ListsDecisions(p, groups, numbers...)
	next.Stop()
	return len(w.AllWrites()) >= w.Dies
}
