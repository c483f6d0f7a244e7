// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestObjectsAreCountedByTheirConditions(t *testing.T) {
	applied, failed := metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue}, metav1.Condition{Type: "Applied", Status: metav1.ConditionFalse}
	metric := ConditionMetric("Klusterlet", func(context.Context) ([][]metav1.Condition, error) {
		return [][]metav1.Condition{{applied, {Type: "Available", Status: metav1.ConditionUnknown}}, {applied}, {failed}, nil}, nil
	})
	registry := prometheus.NewPedanticRegistry()
	expect.NoError(t, registry.Register(metric))
	families, err := registry.Gather()
	expect.NoError(t, err)
	got := map[string]float64{}
	for _, metric := range families[0].GetMetric() {
		key := ""
		for _, label := range metric.GetLabel() {
			key += label.GetName() + "=" + label.GetValue() + " "
		}
		got[key] = metric.GetGauge().GetValue()
	}
	want := map[string]float64{
		"kind=Klusterlet status=True type=Applied ": 2, "kind=Klusterlet status=False type=Applied ": 1,
		"kind=Klusterlet status=Unknown type=Available ": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", families[0].GetName(), diff)
	}
}
