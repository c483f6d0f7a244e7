// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// The operator and the agents are of one program, but only their command lines
// connect them: an agent that does not know a flag would not start.
func TestAgentsTakeTheArgumentsThatTheOperatorRenders(t *testing.T) {
	files, err := filepath.Glob("../../operators/klusterlet/manifests/testdata/*.golden.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no golden files: %v", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "---\n") {
			deployment := &appsv1.Deployment{}
			if err := yaml.Unmarshal([]byte(document), deployment); err != nil || deployment.Kind != "Deployment" {
				continue
			}
			t.Run(filepath.Base(file)+"/"+deployment.Name, func(t *testing.T) {
				checkArguments(t, deployment.Spec.Template.Spec.Containers[0].Args)
			})
		}
	}
}

func checkArguments(t *testing.T, args []string) {
	t.Helper()
	root := newRootCommand(args[0])
	var command *cobra.Command
	for _, candidate := range root.Commands() {
		if candidate.Name() == args[1] {
			command = candidate
		}
	}
	if command == nil {
		t.Fatalf("%s has no command %q", args[0], args[1])
	}
	if err := command.ParseFlags(args[2:]); err != nil {
		t.Errorf("%s %s does not take what the operator renders: %v", args[0], args[1], err)
	}
}
