// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/fence"
)

// The manifests of the operators have the fences that the operators look for;
// with CAPSTAN_UPDATE_FENCE=1 they are written.
func TestManifestsHaveTheFences(t *testing.T) {
	for folder, operator := range map[string]fence.FencedOperator{
		config.ClusterManagerOperator: fence.ClusterManagerOperator(operatorv1.DefaultOperatorNamespace),
		config.KlusterletOperator:     fence.KlusterletOperator(operatorv1.DefaultOperatorNamespace),
		config.ControlPlaneOperator:   fence.ControlPlaneOperator(operatorv1.DefaultOperatorNamespace),
	} {
		t.Run(folder, func(t *testing.T) {
			want := "# Bars the account of the operator from what RBAC cannot. Made of internal/operator/fence by `make generate`.\n"
			for _, object := range []runtime.Object{operator.FencePolicy(), operator.FenceBinding()} {
				fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
				if err != nil {
					t.Fatal(err)
				}
				delete(fields, "status")
				content, err := yaml.Marshal(fields)
				if err != nil {
					t.Fatal(err)
				}
				want += "---\n" + string(content)
			}
			file := filepath.Join("..", "..", "..", "config", "operator", folder, "fence.yaml")
			if os.Getenv("CAPSTAN_UPDATE_FENCE") != "" {
				if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("run `make generate` (-want +got):\n%s", diff)
			}
		})
	}
}
