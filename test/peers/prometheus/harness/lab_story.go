// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Work is a ManifestWork with a ConfigMap.
func Work(cluster, name, text string) string {
	return fmt.Sprintf(`
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: %[2]s, namespace: %[1]s}
spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: %[2]s, namespace: default}, data: {text: %[3]q}}]}}
`, cluster, name, text)
}

// ChangeWorks changes something, for what is measured per change.
func (l *Lab) ChangeWorks(t testing.TB, round int) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "works.yaml")
	content := Work(Member, "greeting", fmt.Sprint(round)) + "---" + Work(Pushed, "greeting", fmt.Sprint(round))
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing the works: %w", err)
	}
	for _, command := range [][]string{
		{"--context", Hub, "apply", "--server-side", "-f", path},
		{"--context", Member, "-n", "default", "delete", "configmap", "greeting", "--ignore-not-found"},
		{"--context", Hub, "label", "managedcluster", Member, "--overwrite", "round=" + []string{"even", "odd"}[round%2]},
	} {
		if _, err := l.RunTool(t.Context(), "kubectl", command...); err != nil {
			return err
		}
	}
	return nil
}

// ScaleDeployment says how many pods a Deployment of the hub has.
func (l *Lab) ScaleDeployment(t testing.TB, namespace, name string, replicas int) {
	t.Helper()
	l.MustRun(t, "kubectl", "--context", Hub, "-n", namespace, "scale", "deployment", name, fmt.Sprintf("--replicas=%d", replicas))
}
