// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// pushed is the name of the member that the hub works for by itself.
const pushed = "pushed"

// drillRestore backs a hub up, goes on with it, destroys its etcd and brings it back
// to the backup: its members lose nothing.
func drillRestore(t *testing.T, d *harness.Drill) {
	d.MakeHub(t)
	d.JoinMember(t)
	other := theLab.ClusterIn(hubName, d.Host.Kubeconfig)
	d.RunCapstan(t, "join", pushed, "--context", harness.DrillHub, "--cluster-kubeconfig", other.Kubeconfig, "--cluster-context", other.Name)
	members := map[string]harness.Cluster{d.Member.Name: d.Member, pushed: other}
	each := func(do func(name string, of harness.Cluster)) {
		for name, of := range members {
			do(name, of)
		}
	}
	each(func(name string, of harness.Cluster) {
		for _, work := range []string{"kept", "changed", "deleted"} {
			d.Brings(t, name, of, work, "before")
		}
	})
	dir := t.TempDir()
	secret, file, cut := filepath.Join(dir, "passphrase"), filepath.Join(dir, "backup"), filepath.Join(dir, "cut")
	if err := os.WriteFile(secret, []byte("correct horse battery staple\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.RunCapstan(t, d.OnHost("backup", "--passphrase-file", secret, "-f", file)...)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, content[:len(content)/2], 0o600); err != nil {
		t.Fatal(err)
	}

	uids := map[string]string{}
	each(func(name string, of harness.Cluster) {
		d.Brings(t, name, of, "changed", "after")
		d.Brings(t, name, of, "forgotten", "after")
		d.Hub.RunKubectl(t, "-n", name, "delete", "manifestwork", "deleted")
		for _, object := range []string{"kept", "changed", "forgotten"} {
			uids[name+"/"+object] = of.ReadPath(t, "{.metadata.uid}", "-n", "default", "configmap/drill-"+object)
		}
	})

	restore := func(from string, more ...string) []string {
		return d.OnHost("restore", append([]string{"--passphrase-file", secret, "-f", from}, more...)...)
	}
	d.IsRefused(t, "confirm that with --yes", restore(file)...)
	d.IsRefused(t, "cannot be used", restore(cut, "--yes")...)
	d.NoteLine("without --yes, and from a file that was cut off: refused")
	claim := []string{"-n", harness.DrillPlace, "persistentvolumeclaim/data-" + harness.DrillHub + "-etcd-0"}
	lost := d.Host.ReadPath(t, "{.metadata.uid}", claim...)
	d.Host.RunKubectl(t, append([]string{"delete", "--wait=false"}, claim...)...)
	d.Host.RunKubectl(t, "-n", harness.DrillPlace, "delete", "pod", harness.DrillHub+"-etcd-0")
	harness.Eventually(t, func() error {
		if now, err := d.Host.TryKubectl(t.Context(), "", append([]string{"get", "-o", "jsonpath={.metadata.uid}"}, claim...)...); err != nil || now == lost {
			return fmt.Errorf("the volume of etcd is still there: %w", err)
		}
		return nil
	})
	d.NoteLine("the volume of etcd destroyed, and made anew empty by its StatefulSet")
	start := time.Now()
	said := d.RunCapstan(t, restore(file, "--yes")...)
	d.NoteLine("restored in %s; it said:\n    %s", time.Since(start).Round(time.Second), strings.ReplaceAll(strings.TrimSpace(said), "\n", "\n    "))

	each(func(name string, of harness.Cluster) { d.RestoredMember(t, name, of, uids) })
	d.RunCapstan(t, "restore", "confirm", "--context", harness.DrillHub, "--all")
	each(func(name string, of harness.Cluster) {
		harness.Eventually(t, func() error {
			out, err := of.TryKubectl(t.Context(), "", "get", "appliedmanifestworks", "-o",
				`jsonpath={range .items[?(@.spec.manifestWorkName=="forgotten")]}{.status.evictionStartTime}{end}`)
			if err == nil && out == "" {
				err = fmt.Errorf("the agent of %s does not let go of what was confirmed", name)
			}
			return err
		})
	})
	d.NoteLine("confirmed: both agents begin to let go of it")
	d.DeliversWork(t, "after the restore")
	d.RunCapstan(t, "unjoin", pushed, "--context", harness.DrillHub, "--cluster-kubeconfig", other.Kubeconfig, "--cluster-context", other.Name)
	d.MemberLeaves(t)
}
