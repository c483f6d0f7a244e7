// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
)

// Effect is what a taint does to workloads that do not tolerate it.
type Effect string

// The effects. Those of the Karmada API are stored as these: NoExecute is
// NoSelect, and NoSchedule is NoSelectIfNew.
const (
	// NoSelect moves workloads away.
	NoSelect Effect = "NoSelect"
	// PreferNoSelect prefers other clusters.
	PreferNoSelect Effect = "PreferNoSelect"
	// NoSelectIfNew keeps the workloads that are there and takes no others.
	NoSelectIfNew Effect = "NoSelectIfNew"
)

// Taint keeps workloads away from a cluster.
type Taint struct {
	Key, Value string
	Effect     Effect
	// Since is when the taint was added.
	Since time.Time
}

// String returns the taint as kubectl writes it, such as gpu=only:NoSelect.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// ScoreName names a score: that of an AddOnPlacementScore, and the score within it.
type ScoreName struct{ Resource, Score string }

// Score is from -100 to 100.
type Score struct {
	Value int32
	// Until is when the score expires. The zero time is never.
	Until time.Time
}

// ScoresOf returns what an AddOnPlacementScore says of the cluster whose
// namespace it is in.
func ScoresOf(object *clusterv1alpha1.AddOnPlacementScore) map[ScoreName]Score {
	scores := make(map[ScoreName]Score, len(object.Status.Scores))
	for _, item := range object.Status.Scores {
		score := Score{Value: item.Value}
		if object.Status.ValidUntil != nil {
			score.Until = object.Status.ValidUntil.Time
		}
		scores[ScoreName{Resource: object.Name, Score: item.Name}] = score
	}
	return scores
}

func taintsOf(cluster *clusterv1.ManagedCluster) []Taint {
	var taints []Taint
	for _, t := range cluster.Spec.Taints {
		taints = append(taints, Taint{Key: t.Key, Value: t.Value, Effect: Effect(t.Effect), Since: t.TimeAdded.Time})
	}
	return taints
}

func allocatableOf(cluster *clusterv1.ManagedCluster) corev1.ResourceList {
	if len(cluster.Status.Allocatable) == 0 {
		return nil
	}
	allocatable := make(corev1.ResourceList, len(cluster.Status.Allocatable))
	for name, quantity := range cluster.Status.Allocatable {
		allocatable[corev1.ResourceName(name)] = quantity
	}
	return allocatable
}

// AreAlike reports whether everything that is known of two states of a cluster is the
// same, but for what only FieldTree tells, and for Decisions.
func AreAlike(a, b Cluster) bool {
	a.Decisions = 0
	b.Decisions = 0
	a.fields = nil
	b.fields = nil
	return reflect.DeepEqual(a, b)
}

// FieldTree returns the ManagedCluster as a tree of fields, which must not be
// changed. It is empty for a cluster that was not made by FromCluster.
func (c *Cluster) FieldTree() (map[string]any, error) {
	if c.fields == nil {
		return map[string]any{}, nil
	}
	return c.fields()
}

// fieldsOf makes the tree when it is asked for: few placements need it.
func fieldsOf(cluster *clusterv1.ManagedCluster) func() (map[string]any, error) {
	return sync.OnceValues(func() (map[string]any, error) {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(withPinnedClaims(cluster))
		if err != nil {
			return nil, fmt.Errorf("reading the fields of ManagedCluster %q: %w", cluster.Name, err)
		}
		return fields, nil
	})
}
