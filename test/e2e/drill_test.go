// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// drillHub is the name of the dedicated hub, and of its context.
	drillHub = "fleet"
	// drillPlace is where its API server and its etcd run on the host.
	drillPlace = drillHub + "-control-plane"
)

// TestDrills does to a dedicated hub what happens to one rarely, and takes long:
// CI does not run it. Each drill is a make target (drill-NAME), begins with a lab
// without a hub, and ends with one; what it prints last is what it has found out.
func TestDrills(t *testing.T) {
	for name, play := range map[string]func(*testing.T, *drill){
		"external-etcd": drillExternalEtcd,
		"node-restart":  drillNodeRestart,
		"restore":       drillRestore,
		"rotation":      drillRotation,
		"upgrade":       drillUpgrade,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrill(t)
			play(t, d)
			if !t.Failed() {
				t.Logf("drill %s:\n  %s", name, strings.Join(d.summary, "\n  "))
			}
		})
	}
}

// drill is a dedicated hub on a host, with a member.
type drill struct {
	host, member cluster
	// hub is the dedicated one, once it was made.
	hub     cluster
	summary []string
}

// newDrill gives the drill a kubeconfig of its own, which gets the context of the
// hub, and the host the images of a control plane.
func newDrill(t *testing.T) *drill {
	t.Helper()
	content, err := os.ReadFile(theLab.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	d := &drill{
		host: cluster{allInOneName, kubeconfig}, member: cluster{memberName, kubeconfig}, hub: cluster{drillHub, kubeconfig},
	}
	d.loadImages(t, "kubernetes.tar")
	diagnose(t, d.host, d.hub, d.member)
	return d
}

// loadImages loads images that the lab has built into the host.
func (d *drill) loadImages(t *testing.T, file string) {
	t.Helper()
	if _, err := theLab.run(t.Context(), "load-image", theLab.bin(file), "--cluster", d.host.name); err != nil {
		t.Fatal(err)
	}
}

// say adds a line to the summary.
func (d *drill) say(format string, args ...any) {
	d.summary = append(d.summary, fmt.Sprintf(format, args...))
}

// try runs capstan and returns what it printed.
func (d *drill) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return output(t.Context(), theLab.root, []string{"KUBECONFIG=" + d.host.kubeconfig}, filepath.Join(theLab.root, "bin/capstan"), args...)
}

// capstan runs capstan, which has to succeed.
func (d *drill) capstan(t *testing.T, args ...string) string {
	t.Helper()
	out, err := d.try(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refuses runs capstan, which has to fail with a message.
func (d *drill) refuses(t *testing.T, want string, args ...string) {
	t.Helper()
	out, err := d.try(t, args...)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("capstan %s has to be refused with %q: %v\n%s", strings.Join(args, " "), want, err, out)
	}
}

// onHost are the arguments of a command for the hub that is given to its host.
func (d *drill) onHost(command string, more ...string) []string {
	return slices.Concat(strings.Fields(command), []string{"--context", d.host.name, "--name", drillHub}, more)
}

// makeHub makes the hub.
func (d *drill) makeHub(t *testing.T, more ...string) {
	t.Helper()
	d.capstan(t, d.onHost("init --dedicated", append([]string{"--image", theLab.image}, more...)...)...)
}

// drillWork is what the member gets from the hub.
const drillWork = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: hello, namespace: member1}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: Namespace, metadata: {name: hello}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: hello}, data: {text: %q}}
`

// join lets the member join by its agent, and gives it a work.
func (d *drill) join(t *testing.T) {
	t.Helper()
	register := strings.Fields(d.capstan(t, "token", "create", "--context", drillHub, "--auto-accept", "--cluster-name", d.member.name, "--print-register-command"))
	if len(register) < 2 || register[0] != "capstan" {
		t.Fatalf("the command to register is %q", register)
	}
	d.capstan(t, append(register[1:], "--context", d.member.name, "--cluster-name", d.member.name, "--image", theLab.image)...)
	d.delivers(t, "first")
}

// delivers changes the work, and waits until the member has it and the hub knows.
func (d *drill) delivers(t *testing.T, text string) {
	t.Helper()
	// The webhooks of the hub may be away for a moment.
	eventually(t, func() error {
		_, err := d.hub.try(t.Context(), fmt.Sprintf(drillWork, text), "apply", "-f", "-")
		return err
	})
	eventually(t, func() error {
		out, err := d.member.try(t.Context(), "", "-n", "hello", "get", "configmap", "hello", "-o", "jsonpath={.data.text}")
		if err == nil && out != text {
			err = fmt.Errorf("the member has %q, want %q", out, text)
		}
		return err
	})
	d.hub.waitCondition(t, "Available", "True", "-n", d.member.name, "manifestwork/hello")
	d.hub.waitCondition(t, "ManagedClusterConditionAvailable", "True", "managedcluster/"+d.member.name)
}

// leave lets the member leave and removes the hub, of which nothing may be left.
func (d *drill) leave(t *testing.T) {
	t.Helper()
	d.unregister(t)
	d.removeHub(t)
}

// removeHub removes a hub without members, and waits until nothing is left.
func (d *drill) removeHub(t *testing.T) {
	t.Helper()
	d.capstan(t, d.onHost("clean --dedicated", "--delete-data")...)
	eventually(t, func() error {
		return errors.Join(d.host.leftovers(t.Context()), d.member.leftovers(t.Context()))
	})
}

func (d *drill) unregister(t *testing.T) {
	t.Helper()
	d.capstan(t, "unregister", d.member.name, "--context", drillHub, "--cluster-kubeconfig", d.host.kubeconfig, "--cluster-context", d.member.name)
}

// identities returns the UIDs of what the hub stores, and of what the member has
// from it, by kind and name.
func (d *drill) identities(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for of, kinds := range map[cluster]string{
		d.hub:    "namespaces,secrets,configmaps,serviceaccounts,customresourcedefinitions,managedclusters,clusterconnections,manifestworks,clusterroles,rolebindings",
		d.member: "namespaces,appliedmanifestworks",
	} {
		out := of.kubectl(t, "get", kinds, "-A", "-o",
			`jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}={.metadata.uid}{"\n"}{end}`)
		for line := range strings.Lines(out) {
			name, uid, _ := strings.Cut(strings.TrimSpace(line), "=")
			found[of.name+" "+name] = uid
		}
	}
	for _, needed := range []string{drillHub + " ManagedCluster//" + d.member.name, drillHub + " ManifestWork/" + d.member.name + "/hello"} {
		if found[needed] == "" {
			t.Errorf("there is no %s", needed)
		}
	}
	return found
}

// sameAs fails the drill if something of before is gone, or was made anew.
func (d *drill) sameAs(t *testing.T, before map[string]string) {
	t.Helper()
	now := d.identities(t)
	lost := 0
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now[name] != before[name] {
			lost++
			t.Errorf("%s had the UID %s and has %q", name, before[name], now[name])
		}
	}
	d.say("objects of hub and member that were there before: %d, lost or made anew: %d", len(before), lost)
}
