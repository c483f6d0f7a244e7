// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hubfile

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/fleet"
)

// part notes the connections that it gets.
type part struct{ engaged chan *fleet.Connection }

func (p *part) Name() string { return "test" }
func (p *part) Engage(_ context.Context, c *fleet.Connection) error {
	p.engaged <- c
	return nil
}

func (p *part) expect(t *testing.T, name, hub string) {
	t.Helper()
	select {
	case c := <-p.engaged:
		if string(c.Name) != name || c.HubHost != hub || c.AgentID != "id" {
			t.Errorf("connected as %q (agent %q) to %q, want %q to %q", c.Name, c.AgentID, c.HubHost, name, hub)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("nothing was connected to %s", hub)
	}
}

// files are the files of a hub credential.
type files struct {
	t   *testing.T
	dir string
}

func (f files) write(name string, content []byte) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), content, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f files) kubeconfig(server string) {
	f.write("kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: hub, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: me, user: {client-certificate: tls.crt, client-key: tls.key}}]
contexts: [{name: c, context: {cluster: hub, user: me}}]
current-context: c
`, server))
}

// certificate writes a new certificate that ends at the time.
func (f files) certificate(end time.Time) {
	f.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "me"}, NotBefore: end.Add(-time.Hour), NotAfter: end,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		f.t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		f.t.Fatal(err)
	}
	f.write("tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	f.write("tls.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func TestTheFilesAreFollowed(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := files{t: t, dir: t.TempDir()}
	p := &part{engaged: make(chan *fleet.Connection, 1)}
	registry := fleet.NewRegistry(fleet.Options{Parts: []fleet.Part{p}})
	defer registry.Close()
	follower := New(Options{
		File: filepath.Join(f.dir, "kubeconfig"), AgentID: "id", Member: &rest.Config{Host: "https://member.invalid"},
		Registry: registry, Clock: clocktesting.NewFakeClock(now), Log: logr.Discard(),
	})
	look := func(problem string) {
		t.Helper()
		err := follower.look(t.Context())
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Fatalf("got the problem %v, want %q", err, problem)
		}
	}
	look("does not exist")
	f.write("kubeconfig", []byte("nonsense: ["))
	look("not valid YAML")
	f.kubeconfig("https://one.example.com")
	look("tls.crt")
	f.certificate(now.Add(-time.Minute))
	look("cluster-name")
	f.write(clusterNameFile, []byte("c1\n"))
	look("expired at 2025-12-31T23:59:00Z")
	f.certificate(now.Add(time.Hour))
	look("")
	p.expect(t, "c1", "https://one.example.com")

	look("")
	f.certificate(now.Add(2 * time.Hour))
	look("")
	f.write("tls.key", []byte("half written"))
	look("do not belong together")
	if got := registry.Clusters(); len(got) != 1 || len(p.engaged) != 0 {
		t.Errorf("a renewed or broken certificate replaced the connection: %v", got)
	}

	f.certificate(now.Add(2 * time.Hour))
	f.kubeconfig("https://two.example.com")
	look("")
	p.expect(t, "c1", "https://two.example.com")
	f.write(clusterNameFile, []byte("c2"))
	look("")
	p.expect(t, "c2", "https://two.example.com")
	if got := registry.Clusters(); len(got) != 1 || got[0] != "c2" {
		t.Errorf("connected are %v, want only c2", got)
	}
}
