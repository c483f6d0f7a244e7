// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/growth"
)

// TestManyPortsArePruned has a Service of very many ports. Each is looked for once, and not among
// all that kubectl has applied.
func TestManyPortsArePruned(t *testing.T) {
	growth.InProportion(t, 200, 16, func(many int) func() {
		var ports, applied []any
		for i := range many {
			ports = append(ports, map[string]any{"port": int64(i + 1), "protocol": "TCP", "nodePort": int64(30000 + i)})
			applied = append(applied, map[string]any{"port": i + 1})
		}
		last, err := json.Marshal(map[string]any{"spec": map[string]any{"ports": applied}})
		expect.NoError(t, err)
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{
				"annotations": map[string]any{corev1.LastAppliedConfigAnnotation: string(last)},
				"managedFields": []any{map[string]any{
					"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:type": map[string]any{}}},
				}},
			},
			"spec": map[string]any{"ports": ports},
		}}
		return func() {
			left, _, _ := unstructured.NestedSlice(chain().PruneObject(object).Object, "spec", "ports")
			if port, _ := left[many-1].(map[string]any); len(port) != 2 {
				t.Errorf("the last of %d ports is %v", many, port)
			}
		}
	})
}
