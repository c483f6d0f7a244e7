// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/server/certs"
)

// drillExternalEtcd makes a hub that stores its objects in an etcd elsewhere, and
// meets certificates that have expired, before and while it serves.
func drillExternalEtcd(t *testing.T, d *drill) {
	etcd := startEtcd(t, d.gateway(t))
	flags := []string{"--external-etcd", etcd.url, "--external-etcd-secret", "etcd"}
	init := d.onHost("init --dedicated", append(flags, "--image", theLab.image)...)
	d.refuses(t, `there is no Secret "`+drillPlace+`/etcd"`, init...)
	d.host.kubectl(t, "create", "namespace", drillPlace)
	expired := etcd.client(t, time.Now().Add(-2*certs.LeafLifetime))
	etcd.store(t, d, expired)
	d.refuses(t, "has expired at", init...)
	if err := d.host.leftovers(t.Context()); err != nil {
		t.Errorf("a hub that was refused has left something: %v", err)
	}
	d.say("init without the Secret and with an expired certificate: refused, nothing made")

	valid := etcd.client(t, time.Now())
	etcd.store(t, d, valid)
	d.makeHub(t, flags...)
	d.host.waitCondition(t, "EtcdReady", "True", "-n", drillPlace, "controlplane/"+drillHub)
	if pods := d.host.jsonpath(t, "{.items[*].metadata.name}", "-n", drillPlace, "pods"); strings.Contains(pods, "etcd") {
		t.Errorf("the hub runs an etcd of its own: %s", pods)
	}
	d.join(t)
	before := d.identities(t)

	etcd.store(t, d, expired)
	d.host.waitCondition(t, "Degraded", "True ExternalEtcdInvalid", "-n", drillPlace, "controlplane/"+drillHub)
	said := d.host.condition(t, "Degraded", "-n", drillPlace, "controlplane/"+drillHub)
	if !strings.Contains(said, "expired") {
		t.Errorf("the condition does not say what is wrong: %s", said)
	}
	etcd.store(t, d, valid)
	d.host.waitCondition(t, "Degraded", "False", "-n", drillPlace, "controlplane/"+drillHub)
	d.delivers(t, "after the certificate was renewed")
	d.say("certificate expired while the hub served: %s", said)
	d.sameAs(t, before)

	// The data are not the hub's to delete: a hub of the same name goes on with them.
	uid := d.hub.jsonpath(t, "{.metadata.uid}", "namespace/kube-system")
	d.unregister(t)
	d.capstan(t, d.onHost("clean --dedicated")...)
	d.makeHub(t, flags...)
	if again := d.hub.jsonpath(t, "{.metadata.uid}", "namespace/kube-system"); again != uid {
		t.Errorf("the hub was %s, and made anew it is %s", uid, again)
	}
	d.say("removed and made anew: the hub with its data")
	d.removeHub(t)
}

// gateway is the address of the machine in the network of the lab.
func (d *drill) gateway(t *testing.T) string {
	t.Helper()
	server, err := url.Parse(d.host.kubectl(t, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"))
	if err != nil {
		t.Fatal(err)
	}
	network := server.Hostname()
	return network[:strings.LastIndex(network, ".")] + ".1"
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
	command := exec.CommandContext(t.Context(), theLab.bin("kube"))
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
func (e *etcdElsewhere) store(t *testing.T, d *drill, pair *certs.CertificatePair) {
	t.Helper()
	indent := func(pem []byte) string {
		return "|\n    " + strings.ReplaceAll(strings.TrimSpace(string(pem)), "\n", "\n    ")
	}
	d.host.apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: etcd, namespace: "+drillPlace+"}\nstringData:\n"+
		"  ca.crt: "+indent(e.authority.CertPEM)+"\n  tls.crt: "+indent(pair.CertPEM)+"\n  tls.key: "+indent(pair.KeyPEM)+"\n")
}
