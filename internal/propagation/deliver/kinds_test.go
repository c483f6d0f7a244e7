// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTheDefinitionOfAKindBringsTheRightToIt(t *testing.T) {
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":        "greetings.samples.example.com",
			"labels":      map[string]any{"karmada.io/managed": "true"},
			"annotations": map[string]any{"work.karmada.io/conflict-resolution": "abort"},
		},
		"spec": map[string]any{"group": "samples.example.com", "names": map[string]any{"plural": "greetings"}},
	}}
	want := map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
		"metadata": map[string]any{
			"name":        "open-cluster-management:work:greetings.samples.example.com",
			"labels":      map[string]any{"karmada.io/managed": "true", "open-cluster-management.io/aggregate-to-work": "true"},
			"annotations": map[string]any{"work.karmada.io/conflict-resolution": "abort"},
		},
		"rules": []any{map[string]any{
			"apiGroups": []any{"samples.example.com"}, "resources": []any{"greetings"},
			"verbs": []any{"get", "list", "watch", "create", "update", "patch", "delete"},
		}},
	}
	if diff := cmp.Diff(want, clusterRoleForKind(definition).Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if definition.GetLabels()["open-cluster-management.io/aggregate-to-work"] != "" {
		t.Error("the definition itself was changed")
	}
}

func TestNothingElseBringsRights(t *testing.T) {
	for name, object := range map[string]map[string]any{
		"another kind":             {"apiVersion": "apps/v1", "kind": "Deployment"},
		"a kind of the same name":  {"apiVersion": "example.com/v1", "kind": "CustomResourceDefinition", "spec": map[string]any{"group": "a.b", "names": map[string]any{"plural": "cs"}}},
		"a definition without one": {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": map[string]any{"names": map[string]any{"plural": "pods"}}},
	} {
		if got := clusterRoleForKind(&unstructured.Unstructured{Object: object}); got != nil {
			t.Errorf("%s brings %v", name, got)
		}
	}
}
