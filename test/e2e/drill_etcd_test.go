// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/test/e2e/harness"
)

// drillExternalEtcd makes a hub that stores its objects in an etcd elsewhere, and
// meets certificates that have expired, before and while it serves.
func drillExternalEtcd(t *testing.T, d *harness.Drill) {
	etcd := startEtcd(t, d.GatewayOfHost(t))
	flags := []string{"--external-etcd", etcd.url, "--external-etcd-secret", "etcd"}
	init := d.OnHost("init --dedicated", append(flags, "--image", theLab.Image)...)
	d.IsRefused(t, `there is no Secret "`+harness.DrillPlace+`/etcd"`, init...)
	d.Host.RunKubectl(t, "create", "namespace", harness.DrillPlace)
	expired := etcd.client(t, time.Now().Add(-2*certs.LeafLifetime))
	etcd.store(t, d, expired)
	d.IsRefused(t, "has expired at", init...)
	if err := d.Host.FindLeftovers(t.Context()); err != nil {
		t.Errorf("a hub that was refused has left something: %v", err)
	}
	d.NoteLine("init without the Secret and with an expired certificate: refused, nothing made")

	valid := etcd.client(t, time.Now())
	etcd.store(t, d, valid)
	d.MakeHub(t, flags...)
	d.Host.AwaitCondition(t, "EtcdReady", "True", "-n", harness.DrillPlace, "controlplane/"+harness.DrillHub)
	if pods := d.Host.ReadPath(t, "{.items[*].metadata.name}", "-n", harness.DrillPlace, "pods"); strings.Contains(pods, "etcd") {
		t.Errorf("the hub runs an etcd of its own: %s", pods)
	}
	d.JoinMember(t)
	before := d.Identities(t)

	etcd.store(t, d, expired)
	d.Host.AwaitCondition(t, "Degraded", "True ExternalEtcdInvalid", "-n", harness.DrillPlace, "controlplane/"+harness.DrillHub)
	said := d.Host.ReadCondition(t, "Degraded", "-n", harness.DrillPlace, "controlplane/"+harness.DrillHub)
	if !strings.Contains(said, "expired") {
		t.Errorf("the condition does not say what is wrong: %s", said)
	}
	etcd.store(t, d, valid)
	d.Host.AwaitCondition(t, "Degraded", "False", "-n", harness.DrillPlace, "controlplane/"+harness.DrillHub)
	d.DeliversWork(t, "after the certificate was renewed")
	d.NoteLine("certificate expired while the hub served: %s", said)
	d.SameAs(t, before)

	// The data are not the hub's to delete: a hub of the same name goes on with them.
	uid := d.Hub.ReadPath(t, "{.metadata.uid}", "namespace/kube-system")
	d.Unregister(t)
	d.RunCapstan(t, d.OnHost("clean --dedicated")...)
	d.MakeHub(t, flags...)
	if again := d.Hub.ReadPath(t, "{.metadata.uid}", "namespace/kube-system"); again != uid {
		t.Errorf("the hub was %s, and made anew it is %s", uid, again)
	}
	d.NoteLine("removed and made anew: the hub with its data")
	d.RemoveHub(t)
}

// etcdElsewhere is an etcd that somebody else runs.
type etcdElsewhere struct {
	url       string
	authority *certs.CertificatePair
}

// startEtcd starts an etcd on this machine that takes clients of its authority only.
func startEtcd(t *testing.T, address string) *etcdElsewhere {
	t.Helper()
	authority, err := certs.NewAuthority("etcd elsewhere", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server, err := certs.NewLeaf(authority, certs.Leaf{Hosts: []string{address}, User: "etcd"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string][]byte{"ca.crt": authority.CertPEM, "tls.crt": server.CertPEM, "tls.key": server.KeyPEM} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const clients, peers = ":12379", "http://127.0.0.1:12380"
	e := &etcdElsewhere{url: "https://" + address + clients, authority: authority}
	command := exec.CommandContext(t.Context(), theLab.ToolPath("kube"))
	command.Args = []string{
		"etcd", "--data-dir=" + filepath.Join(folder, "data"), "--listen-client-urls=" + e.url, "--advertise-client-urls=" + e.url,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=default=" + peers,
		"--cert-file=" + filepath.Join(folder, "tls.crt"), "--key-file=" + filepath.Join(folder, "tls.key"),
		"--trusted-ca-file=" + filepath.Join(folder, "ca.crt"), "--client-cert-auth=true",
	}
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		t.Fatalf("starting etcd: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Wait() // with the error that it was killed, as the context has ended
		if t.Failed() {
			t.Logf("etcd:\n%s", log.String())
		}
	})
	return e
}

// client makes a certificate for a client, dated from a time.
func (e *etcdElsewhere) client(t *testing.T, from time.Time) *certs.CertificatePair {
	t.Helper()
	pair, err := certs.NewLeaf(e.authority, certs.Leaf{User: "capstan"}, from)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// store writes the credential into the Secret that the hub reads.
func (e *etcdElsewhere) store(t *testing.T, d *harness.Drill, pair *certs.CertificatePair) {
	t.Helper()
	indent := func(pem []byte) string {
		return "|\n    " + strings.ReplaceAll(strings.TrimSpace(string(pem)), "\n", "\n    ")
	}
	d.Host.ApplyText(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: etcd, namespace: "+harness.DrillPlace+"}\nstringData:\n"+
		"  ca.crt: "+indent(e.authority.CertPEM)+"\n  tls.crt: "+indent(pair.CertPEM)+"\n  tls.key: "+indent(pair.KeyPEM)+"\n")
}
