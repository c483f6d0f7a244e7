// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/server/metrics"
)

// ConditionMetric counts the objects of an operator's kind by what their conditions
// say. The function lists the conditions of each, from a cache.
func ConditionMetric(kind string, list func(context.Context) ([][]metav1.Condition, error)) *metrics.ComputedGauge {
	return metrics.NewComputedGauge(metrics.Definition{
		Name:   "capstan_operator_condition",
		Help:   "Number of objects of the operator's kind whose condition of the type has the status (True, False or Unknown).",
		Labels: []string{"type", "status"},
		Fixed:  map[string]string{"kind": kind}, // one process may be the operator of several kinds
	}, func(ctx context.Context, set metrics.SetValue) error {
		all, err := list(ctx)
		if err != nil {
			return err
		}
		type key struct {
			conditionType string
			status        metav1.ConditionStatus
		}
		counts := map[key]int{}
		for _, conditions := range all {
			for i := range conditions {
				counts[key{conditions[i].Type, conditions[i].Status}]++
			}
		}
		for key, count := range counts {
			set(float64(count), key.conditionType, string(key.status))
		}
		return nil
	})
}

// ListConditions returns what ConditionMetric lists: the conditions of all objects in
// a list of the reader.
func ListConditions[L client.ObjectList](
	reader client.Reader, newList func() L, conditions func(L) [][]metav1.Condition,
) func(context.Context) ([][]metav1.Condition, error) {
	return func(ctx context.Context) ([][]metav1.Condition, error) {
		list := newList()
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
		return conditions(list), nil
	}
}
