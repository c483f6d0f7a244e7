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
)

// pushed is the name of the member that the hub works for by itself.
const pushed = "pushed"

// restoreWork is a work that brings one ConfigMap of its name.
const restoreWork = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: drill-%[2]s, namespace: default}, data: {text: %[3]q}}
`

// drillRestore backs a hub up, goes on with it, destroys its etcd and brings it back
// to the backup: its members lose nothing.
func drillRestore(t *testing.T, d *drill) {
	d.makeHub(t)
	d.join(t)
	other := cluster{hubName, d.host.kubeconfig}
	d.capstan(t, "join", pushed, "--context", drillHub, "--cluster-kubeconfig", other.kubeconfig, "--cluster-context", other.name)
	members := map[string]cluster{d.member.name: d.member, pushed: other}
	each := func(do func(name string, of cluster)) {
		for name, of := range members {
			do(name, of)
		}
	}
	each(func(name string, of cluster) {
		for _, work := range []string{"kept", "changed", "deleted"} {
			d.brings(t, name, of, work, "before")
		}
	})
	dir := t.TempDir()
	secret, file, cut := filepath.Join(dir, "passphrase"), filepath.Join(dir, "backup"), filepath.Join(dir, "cut")
	if err := os.WriteFile(secret, []byte("correct horse battery staple\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.capstan(t, d.onHost("backup", "--passphrase-file", secret, "-f", file)...)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, content[:len(content)/2], 0o600); err != nil {
		t.Fatal(err)
	}

	uids := map[string]string{}
	each(func(name string, of cluster) {
		d.brings(t, name, of, "changed", "after")
		d.brings(t, name, of, "forgotten", "after")
		d.hub.kubectl(t, "-n", name, "delete", "manifestwork", "deleted")
		for _, object := range []string{"kept", "changed", "forgotten"} {
			uids[name+"/"+object] = of.jsonpath(t, "{.metadata.uid}", "-n", "default", "configmap/drill-"+object)
		}
	})

	restore := func(from string, more ...string) []string {
		return d.onHost("restore", append([]string{"--passphrase-file", secret, "-f", from}, more...)...)
	}
	d.refuses(t, "confirm that with --yes", restore(file)...)
	d.refuses(t, "cannot be used", restore(cut, "--yes")...)
	d.say("without --yes, and from a file that was cut off: refused")
	claim := []string{"-n", drillPlace, "persistentvolumeclaim/data-" + drillHub + "-etcd-0"}
	lost := d.host.jsonpath(t, "{.metadata.uid}", claim...)
	d.host.kubectl(t, append([]string{"delete", "--wait=false"}, claim...)...)
	d.host.kubectl(t, "-n", drillPlace, "delete", "pod", drillHub+"-etcd-0")
	eventually(t, func() error {
		if now, err := d.host.try(t.Context(), "", append([]string{"get", "-o", "jsonpath={.metadata.uid}"}, claim...)...); err != nil || now == lost {
			return fmt.Errorf("the volume of etcd is still there: %w", err)
		}
		return nil
	})
	d.say("the volume of etcd destroyed, and made anew empty by its StatefulSet")
	start := time.Now()
	said := d.capstan(t, restore(file, "--yes")...)
	d.say("restored in %s; it said:\n    %s", time.Since(start).Round(time.Second), strings.ReplaceAll(strings.TrimSpace(said), "\n", "\n    "))

	each(func(name string, of cluster) { d.restoredMember(t, name, of, uids) })
	d.capstan(t, "restore", "confirm", "--context", drillHub, "--all")
	each(func(name string, of cluster) {
		eventually(t, func() error {
			out, err := of.try(t.Context(), "", "get", "appliedmanifestworks", "-o",
				`jsonpath={range .items[?(@.spec.manifestWorkName=="forgotten")]}{.status.evictionStartTime}{end}`)
			if err == nil && out == "" {
				err = fmt.Errorf("the agent of %s does not let go of what was confirmed", name)
			}
			return err
		})
	})
	d.say("confirmed: both agents begin to let go of it")
	d.delivers(t, "after the restore")
	d.capstan(t, "unjoin", pushed, "--context", drillHub, "--cluster-kubeconfig", other.kubeconfig, "--cluster-context", other.name)
	d.leave(t)
}

// brings makes or changes a work, and waits until the member has its object.
func (d *drill) brings(t *testing.T, name string, of cluster, work, text string) {
	t.Helper()
	eventually(t, func() error {
		_, err := d.hub.try(t.Context(), fmt.Sprintf(restoreWork, name, work, text), "apply", "-f", "-")
		return err
	})
	eventually(t, func() error { return hasText(t, of, work, text) })
}

func hasText(t *testing.T, of cluster, work, text string) error {
	t.Helper()
	out, err := of.try(t.Context(), "", "-n", "default", "get", "configmap", "drill-"+work, "-o", "jsonpath={.data.text}")
	if err == nil && out != text {
		err = fmt.Errorf("drill-%s has %q, want %q", work, out, text)
	}
	return err
}

// restoredMember waits until the member is as the hub says again, and has lost nothing.
func (d *drill) restoredMember(t *testing.T, name string, of cluster, uids map[string]string) {
	t.Helper()
	d.hub.waitCondition(t, "ManagedClusterConditionAvailable", "True", "managedcluster/"+name)
	d.hub.waitCondition(t, "WorksMissing", "True", "managedcluster/"+name)
	for work, text := range map[string]string{"kept": "before", "changed": "before", "deleted": "before", "forgotten": "after"} {
		eventually(t, func() error { return hasText(t, of, work, text) })
	}
	made := 0
	for _, object := range []string{"kept", "changed", "forgotten"} {
		if uid := of.jsonpath(t, "{.metadata.uid}", "-n", "default", "configmap/drill-"+object); uid != uids[name+"/"+object] {
			made++
			t.Errorf("drill-%s of %s had the UID %s and has %s", object, name, uids[name+"/"+object], uid)
		}
	}
	d.say("%s is Available, objects made anew: %d; WorksMissing: %s", name, made,
		d.hub.jsonpath(t, `{.status.conditions[?(@.type=="WorksMissing")].message}`, "managedcluster/"+name))
}
