// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// TestDrills does to a dedicated hub what happens to one rarely, and takes long:
// CI does not run it. Each drill is a make target (drill-NAME), begins with a lab
// without a hub, and ends with one; what it prints last is what it has found out.
func TestDrills(t *testing.T) {
	for name, play := range map[string]func(*testing.T, *harness.Drill){
		"external-etcd": drillExternalEtcd,
		"node-restart":  drillNodeRestart,
		"restore":       drillRestore,
		"rotation":      drillRotation,
		"upgrade":       drillUpgrade,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrill(t, theLab)
			play(t, d)
			if !t.Failed() {
				t.Logf("drill %s:\n  %s", name, strings.Join(d.Summary, "\n  "))
			}
		})
	}
}

// newDrill gives the drill a kubeconfig of its own, which gets the context of the
// hub, and the host the images of a control plane.
func newDrill(t *testing.T, l *harness.Lab) *harness.Drill {
	t.Helper()
	content, err := os.ReadFile(l.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	d := &harness.Drill{
		Host: l.ClusterIn(allInOneName, kubeconfig), Member: l.ClusterIn(memberName, kubeconfig), Hub: l.ClusterIn(harness.DrillHub, kubeconfig),
	}
	d.LoadImages(t, "kubernetes.tar")
	harness.DiagnoseFailure(t, d.Host, d.Hub, d.Member)
	return d
}
