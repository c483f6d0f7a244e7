// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capstan-io/capstan/internal/server/certs"
)

// StartEtcd starts an etcd as an operator of dedicated hubs does: it serves
// localhost, and clients with a certificate of the authority only.
func StartEtcd(t testing.TB) (address string, authority *certs.CertificatePair) {
	t.Helper()
	Need(t)
	authority, err := certs.NewAuthority("etcd", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	// The same certificate is that of a client: the JSON form of the API is one.
	server, err := certs.NewLeaf(authority, certs.Leaf{Hosts: []string{"localhost", "127.0.0.1"}, User: "etcd-member"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	address = freeAddress(t)
	peers := freeAddress(t)
	command := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), //nolint:gosec // who runs tests says where
		"--name=member", "--data-dir="+filepath.Join(folder, "data"), "--unsafe-no-fsync",
		"--listen-client-urls=https://"+address, "--advertise-client-urls=https://"+address,
		"--listen-peer-urls=http://"+peers, "--initial-advertise-peer-urls=http://"+peers, "--initial-cluster=member=http://"+peers,
		"--cert-file="+file("tls.crt", server.CertPEM), "--key-file="+file("tls.key", server.KeyPEM),
		"--trusted-ca-file="+file("ca.crt", authority.CertPEM), "--client-cert-auth=true", "--tls-min-version=TLS1.2")
	var log bytes.Buffer
	command.Stdout = &log
	command.Stderr = &log
	if err := command.Start(); err != nil {
		t.Fatalf("starting etcd: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Wait() // with the error that it was killed, as the context has ended
		if t.Failed() {
			t.Logf("etcd:\n%s", log.String())
		}
	})
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, serverPatience, true, func(ctx context.Context) (bool, error) {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return true, connection.Close()
	})
	if err != nil {
		t.Fatalf("waiting for etcd: %v", err)
	}
	return address, authority
}

// freeAddress returns an address that nothing listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return fmt.Sprint(listener.Addr())
}
