// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/fence"
)

// generateFences makes the manifests with the fences that the operators look for.
func generateFences(context.Context, string) (generatedFiles, error) {
	files := generatedFiles{}
	for folder, operator := range map[string]fence.FencedOperator{
		config.ClusterManagerOperator: fence.ClusterManagerOperator(operatorv1.DefaultOperatorNamespace),
		config.KlusterletOperator:     fence.KlusterletOperator(operatorv1.DefaultOperatorNamespace),
		config.ControlPlaneOperator:   fence.ControlPlaneOperator(operatorv1.DefaultOperatorNamespace),
	} {
		manifest, err := fenceManifest(operator)
		if err != nil {
			return nil, fmt.Errorf("the fence of %s: %w", folder, err)
		}
		files[path.Join("config/operator", folder, "fence.yaml")] = manifest
	}
	return files, nil
}

func fenceManifest(operator fence.FencedOperator) (string, error) {
	text := "# Bars the account of the operator from what RBAC cannot. Made of internal/operator/fence by `make generate`.\n"
	for _, object := range []runtime.Object{operator.FencePolicy(), operator.FenceBinding()} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return "", fmt.Errorf("reading the fields of %T: %w", object, err)
		}
		delete(fields, "status")
		content, err := yaml.Marshal(fields)
		if err != nil {
			return "", fmt.Errorf("encoding %T: %w", object, err)
		}
		text += "---\n" + string(content)
	}
	return text, nil
}
