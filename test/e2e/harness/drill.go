// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// GatewayOfHost is the address of the machine in the network of the lab.
func (d *Drill) GatewayOfHost(t testing.TB) string {
	t.Helper()
	server, err := url.Parse(d.Host.RunKubectl(t, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"))
	if err != nil {
		t.Fatal(err)
	}
	network := server.Hostname()
	return network[:strings.LastIndex(network, ".")] + ".1"
}

// WriteAllTheTime makes ConfigMaps in the hub until the context ends, and returns the names
// of those that the hub has confirmed.
func (d *Drill) WriteAllTheTime(ctx context.Context) (confirmed []string) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("write-%d", n)
		object := fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: default, labels: {drill: writes}}}", name)
		if _, err := d.Hub.TryKubectl(ctx, object, "create", "-f", "-", "--request-timeout=5s"); err == nil {
			confirmed = append(confirmed, name)
		}
	}
	return confirmed
}

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

// Brings makes or changes a work, and waits until the member has its object.
func (d *Drill) Brings(t testing.TB, name string, of Cluster, work, text string) {
	t.Helper()
	Eventually(t, func() error {
		_, err := d.Hub.TryKubectl(t.Context(), fmt.Sprintf(restoreWork, name, work, text), "apply", "-f", "-")
		return err
	})
	Eventually(t, func() error { return hasText(t, of, work, text) })
}

func hasText(t testing.TB, of Cluster, work, text string) error {
	t.Helper()
	out, err := of.TryKubectl(t.Context(), "", "-n", "default", "get", "configmap", "drill-"+work, "-o", "jsonpath={.data.text}")
	if err == nil && out != text {
		err = fmt.Errorf("drill-%s has %q, want %q", work, out, text)
	}
	return err
}

// RestoredMember waits until the member is as the hub says again, and has lost nothing.
func (d *Drill) RestoredMember(t testing.TB, name string, of Cluster, uids map[string]string) {
	t.Helper()
	d.Hub.AwaitCondition(t, "ManagedClusterConditionAvailable", "True", "managedcluster/"+name)
	d.Hub.AwaitCondition(t, "WorksMissing", "True", "managedcluster/"+name)
	for work, text := range map[string]string{"kept": "before", "changed": "before", "deleted": "before", "forgotten": "after"} {
		Eventually(t, func() error { return hasText(t, of, work, text) })
	}
	made := 0
	for _, object := range []string{"kept", "changed", "forgotten"} {
		if uid := of.ReadPath(t, "{.metadata.uid}", "-n", "default", "configmap/drill-"+object); uid != uids[name+"/"+object] {
			made++
			t.Errorf("drill-%s of %s had the UID %s and has %s", object, name, uids[name+"/"+object], uid)
		}
	}
	d.NoteLine("%s is Available, objects made anew: %d; WorksMissing: %s", name, made,
		d.Hub.ReadPath(t, `{.status.conditions[?(@.type=="WorksMissing")].message}`, "managedcluster/"+name))
}

const (
	// DrillHub is the name of the dedicated hub, and of its context.
	DrillHub = "fleet"
	// DrillPlace is where its API server and its etcd run on the host.
	DrillPlace = DrillHub + "-control-plane"
)

// Drill is a dedicated hub on a host, with a member.
type Drill struct {
	Host, Member Cluster
	// Hub is the dedicated one, once it was made.
	Hub     Cluster
	Summary []string
}

// LoadImages loads images that the lab has built into the host.
func (d *Drill) LoadImages(t testing.TB, file string) {
	t.Helper()
	if _, err := d.Host.lab.RunLab(t.Context(), "load-image", d.Host.lab.ToolPath(file), "--cluster", d.Host.Name); err != nil {
		t.Fatal(err)
	}
}

// NoteLine adds a line to the summary.
func (d *Drill) NoteLine(format string, args ...any) {
	d.Summary = append(d.Summary, fmt.Sprintf(format, args...))
}

// TryCapstan runs capstan and returns what it printed.
func (d *Drill) TryCapstan(t testing.TB, args ...string) (string, error) {
	t.Helper()
	return RunProgram(t.Context(), d.Host.lab.Root, []string{"KUBECONFIG=" + d.Host.Kubeconfig}, filepath.Join(d.Host.lab.Root, "bin/capstan"), args...)
}

// RunCapstan runs capstan, which has to succeed.
func (d *Drill) RunCapstan(t testing.TB, args ...string) string {
	t.Helper()
	out, err := d.TryCapstan(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// IsRefused runs capstan, which has to fail with a message.
func (d *Drill) IsRefused(t testing.TB, want string, args ...string) {
	t.Helper()
	out, err := d.TryCapstan(t, args...)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("capstan %s has to be refused with %q: %v\n%s", strings.Join(args, " "), want, err, out)
	}
}

// OnHost are the arguments of a command for the hub that is given to its host.
func (d *Drill) OnHost(command string, more ...string) []string {
	return slices.Concat(strings.Fields(command), []string{"--context", d.Host.Name, "--name", DrillHub}, more)
}

// MakeHub makes the hub.
func (d *Drill) MakeHub(t testing.TB, more ...string) {
	t.Helper()
	d.RunCapstan(t, d.OnHost("init --dedicated", append([]string{"--image", d.Host.lab.Image}, more...)...)...)
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

// JoinMember lets the member join by its agent, and gives it a work.
func (d *Drill) JoinMember(t testing.TB) {
	t.Helper()
	register := strings.Fields(d.RunCapstan(t, "token", "create", "--context", DrillHub, "--auto-accept", "--cluster-name", d.Member.Name, "--print-register-command"))
	if len(register) < 2 || register[0] != "capstan" {
		t.Fatalf("the command to register is %q", register)
	}
	d.RunCapstan(t, append(register[1:], "--context", d.Member.Name, "--cluster-name", d.Member.Name, "--image", d.Host.lab.Image)...)
	d.DeliversWork(t, "first")
}

// DeliversWork changes the work, and waits until the member has it and the hub knows.
func (d *Drill) DeliversWork(t testing.TB, text string) {
	t.Helper()
	// The webhooks of the hub may be away for a moment.
	Eventually(t, func() error {
		_, err := d.Hub.TryKubectl(t.Context(), fmt.Sprintf(drillWork, text), "apply", "-f", "-")
		return err
	})
	Eventually(t, func() error {
		out, err := d.Member.TryKubectl(t.Context(), "", "-n", "hello", "get", "configmap", "hello", "-o", "jsonpath={.data.text}")
		if err == nil && out != text {
			err = fmt.Errorf("the member has %q, want %q", out, text)
		}
		return err
	})
	d.Hub.AwaitCondition(t, "Available", "True", "-n", d.Member.Name, "manifestwork/hello")
	d.Hub.AwaitCondition(t, "ManagedClusterConditionAvailable", "True", "managedcluster/"+d.Member.Name)
}

// MemberLeaves lets the member leave and removes the hub, of which nothing may be left.
func (d *Drill) MemberLeaves(t testing.TB) {
	t.Helper()
	d.Unregister(t)
	d.RemoveHub(t)
}

// RemoveHub removes a hub without members, and waits until nothing is left.
func (d *Drill) RemoveHub(t testing.TB) {
	t.Helper()
	d.RunCapstan(t, d.OnHost("clean --dedicated", "--delete-data")...)
	Eventually(t, func() error {
		return errors.Join(d.Host.FindLeftovers(t.Context()), d.Member.FindLeftovers(t.Context()))
	})
}

// Unregister takes the registration of the member away on the hub.
func (d *Drill) Unregister(t testing.TB) {
	t.Helper()
	d.RunCapstan(t, "unregister", d.Member.Name, "--context", DrillHub, "--cluster-kubeconfig", d.Host.Kubeconfig, "--cluster-context", d.Member.Name)
}

// Identities returns the UIDs of what the hub stores, and of what the member has
// from it, by kind and name.
func (d *Drill) Identities(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	for of, kinds := range map[Cluster]string{
		d.Hub:    "namespaces,secrets,configmaps,serviceaccounts,customresourcedefinitions,managedclusters,clusterconnections,manifestworks,clusterroles,rolebindings",
		d.Member: "namespaces,appliedmanifestworks",
	} {
		out := of.RunKubectl(t, "get", kinds, "-A", "-o",
			`jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}={.metadata.uid}{"\n"}{end}`)
		for line := range strings.Lines(out) {
			name, uid, _ := strings.Cut(strings.TrimSpace(line), "=")
			found[of.Name+" "+name] = uid
		}
	}
	for _, needed := range []string{DrillHub + " ManagedCluster//" + d.Member.Name, DrillHub + " ManifestWork/" + d.Member.Name + "/hello"} {
		if found[needed] == "" {
			t.Errorf("there is no %s", needed)
		}
	}
	return found
}

// SameAs fails the drill if something of before is gone, or was made anew.
func (d *Drill) SameAs(t testing.TB, before map[string]string) {
	t.Helper()
	now := d.Identities(t)
	lost := 0
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now[name] != before[name] {
			lost++
			t.Errorf("%s had the UID %s and has %q", name, before[name], now[name])
		}
	}
	d.NoteLine("objects of hub and member that were there before: %d, lost or made anew: %d", len(before), lost)
}

// SeeVersions returns the versions of the pods of API server and controller manager
// as they change, until the context ends.
func (d *Drill) SeeVersions(ctx context.Context) (seen []string) {
	for ; ctx.Err() == nil; time.Sleep(Pause(0)) {
		state := make([]string, 0, 2)
		for _, component := range []string{"apiserver", "controller-manager"} {
			out, err := d.Host.TryKubectl(ctx, "", "-n", DrillPlace, "get", "pods", "-l", fleetv1alpha1.LabelControlPlaneComponent+"="+component,
				"--sort-by={.metadata.creationTimestamp}", "-o", "jsonpath={.items[*].spec.containers[0].image}")
			if err != nil {
				break
			}
			var tags []string
			for image := range strings.FieldsSeq(out) {
				tags = append(tags, image[strings.LastIndex(image, ":")+1:])
			}
			state = append(state, component+" "+strings.Join(tags, " "))
		}
		text := strings.Join(state, ", ")
		if len(state) == 2 && (len(seen) == 0 || seen[len(seen)-1] != text) {
			seen = append(seen, text)
		}
	}
	return seen
}
